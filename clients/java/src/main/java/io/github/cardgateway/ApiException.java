package io.github.cardgateway;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** An answer with a status of 400 or more, from the gateway or the issuer. */
public final class ApiException extends CardException {
    private static final long serialVersionUID = 1;
    private final transient Answer answer;
    private final String code;
    private final String reason;
    private final transient List<Map<?, ?>> details = new ArrayList<>();

    ApiException(Answer answer) {
        this(answer, Json.errorFields(answer.body()));
    }

    private ApiException(Answer answer, Map<?, ?> fields) {
        super(answer.status() + " " + text(fields.get("code"), "") + ": " + text(fields.get("message"), "the request was refused")
            + " (request id " + answer.header("X-Request-Id").orElse("") + ")", null);
        this.answer = answer;
        code = text(fields.get("code"), "");
        reason = text(fields.get("message"), "the request was refused");
        if (fields.get("details") instanceof List) {
            for (Object detail : (List<?>) fields.get("details")) {
                if (detail instanceof Map) {
                    details.add((Map<?, ?>) detail);
                }
            }
        }
    }

    private static String text(Object value, String otherwise) {
        return value instanceof String && !((String) value).isEmpty() ? (String) value : otherwise;
    }

    /** Returns the status of the answer. */
    public int status() {
        return answer.status();
    }

    /** Returns a code such as VALIDATION_FAILED; empty if the body names none. */
    public String code() {
        return code;
    }

    /** Returns the message of the body. */
    public String reason() {
        return reason;
    }

    /** Returns the faults that the body lists, each with {@code field}, {@code finding} and {@code message} where it has them. */
    public List<Map<?, ?>> details() {
        return details;
    }

    /** Returns the id by which the operator finds the request; empty if there is none. */
    public String requestId() {
        return answer.header("X-Request-Id").orElse("");
    }

    /** Returns how long to wait, if the answer says so. */
    public Optional<Duration> retryAfter() {
        return Policy.retryAfter(answer.header("Retry-After").orElse(""));
    }

    /** Returns the answer. */
    public Answer answer() {
        return answer;
    }
}
