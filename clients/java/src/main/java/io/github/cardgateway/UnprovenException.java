package io.github.cardgateway;

/**
 * The gateway has not signed the answer for this request, while {@link Policy#verifyAnswers} is set. The request may have been
 * executed.
 */
public final class UnprovenException extends CardException {
    private static final long serialVersionUID = 1;
    private final int status;
    private final String requestId;
    private final boolean unsigned;

    UnprovenException(Answer answer, boolean unsigned, String reason) {
        super("the answer " + answer.status() + " is not proven to be the gateway's (request id "
            + answer.header("X-Request-Id").orElse("") + "): " + reason, null);
        this.status = answer.status();
        this.requestId = answer.header("X-Request-Id").orElse("");
        this.unsigned = unsigned;
    }

    /** Returns the status, as it was received. */
    public int status() {
        return status;
    }

    /** Returns the request id, as it was received. */
    public String requestId() {
        return requestId;
    }

    /** Returns whether the answer has no signature at all, as refusals with 400 and 401. */
    public boolean unsigned() {
        return unsigned;
    }
}
