package io.github.cardgateway;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;

/** An answer with a status of 400 or more, from the gateway or the issuer. */
public final class ApiException extends CardException {
    private static final long serialVersionUID = 1;
    private static final Map<Integer, String> TEXTS = Map.ofEntries(
        Map.entry(400, "Bad Request"), Map.entry(401, "Unauthorized"), Map.entry(403, "Forbidden"), Map.entry(404, "Not Found"),
        Map.entry(405, "Method Not Allowed"), Map.entry(409, "Conflict"), Map.entry(413, "Content Too Large"),
        Map.entry(415, "Unsupported Media Type"), Map.entry(422, "Unprocessable Content"), Map.entry(429, "Too Many Requests"),
        Map.entry(500, "Internal Server Error"), Map.entry(502, "Bad Gateway"), Map.entry(503, "Service Unavailable"),
        Map.entry(504, "Gateway Timeout"));

    private final transient Answer answer;
    private final String code;
    private final String reason;
    private final transient List<Map<?, ?>> details = new ArrayList<>();
    // What the gateway says of a request that it has refused: whether it has accepted it, and whether the issuer may have seen
    // it. null: it does not say.
    final Boolean accepted;
    private final Boolean forwarded;

    ApiException(Answer answer) {
        this(answer, answer.status() < 400 ? Map.of() : Json.object(answer.body()));
    }

    private ApiException(Answer answer, Map<?, ?> document) {
        super(answer.status() + " " + text(fields(document), "code") + ": " + message(answer.status(), fields(document))
            + " (request id " + answer.header("X-Request-Id").orElse("") + ")", null);
        Map<?, ?> fields = fields(document);
        this.answer = answer;
        code = text(fields, "code");
        reason = message(answer.status(), fields);
        boolean inner = fields != document;
        accepted = inner && fields.get("accepted") instanceof Boolean ? (Boolean) fields.get("accepted") : null;
        forwarded = inner && fields.get("forwarded") instanceof Boolean ? (Boolean) fields.get("forwarded") : null;
        Object faults = fields.get("details") instanceof List ? fields.get("details") : fields.get("errors");
        if (faults instanceof List) {
            for (Object fault : (List<?>) faults) {
                if (fault instanceof Map) {
                    details.add((Map<?, ?>) fault);
                }
            }
        }
    }

    /** Returns where code and message are: the gateway has them in error, some issuers and RFC 9457 at the top level. */
    private static Map<?, ?> fields(Map<?, ?> document) {
        return document.get("error") instanceof Map ? (Map<?, ?>) document.get("error") : document;
    }

    private static String text(Map<?, ?> fields, String name) {
        return fields.get(name) instanceof String ? (String) fields.get(name) : "";
    }

    private static String message(int status, Map<?, ?> fields) {
        String title = text(fields, "title"), detail = text(fields, "detail");
        String problem = title + (title.isEmpty() || detail.isEmpty() ? "" : ": ") + detail;
        return Stream.of(text(fields, "message"), problem, TEXTS.getOrDefault(status, "refused")).filter(s -> !s.isEmpty()).findFirst().get();
    }

    boolean is(String message) {
        return status() == 401 && reason.equals(message);
    }

    /** Returns whether the answer has the form of a refusal by the gateway. */
    boolean ofGateway() {
        return accepted != null || status() == 401 && code.equals("UNAUTHORIZED") || code.equals("UPSTREAM_ERROR") || code.equals("UPSTREAM_TIMEOUT");
    }

    /** Returns whether the gateway says that it has accepted the request, and no issuer has seen it: it never is executed. */
    public boolean notExecuted() {
        return Boolean.TRUE.equals(accepted) && Boolean.FALSE.equals(forwarded);
    }

    /** Returns the status of the answer. */
    public int status() {
        return answer.status();
    }

    /** Returns a code such as VALIDATION_FAILED; empty if the body names none. */
    public String code() {
        return code;
    }

    /** Returns the message of the body, else the text of the status. */
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
