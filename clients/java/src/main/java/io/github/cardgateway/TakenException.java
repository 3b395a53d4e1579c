package io.github.cardgateway;

/**
 * The gateway had accepted the call before: an earlier attempt has arrived, and its answer was lost. The issuer has executed it
 * at most once, perhaps not: read what it should have made. Do not send it as a new call.
 */
public final class TakenException extends CardException {
    private static final long serialVersionUID = 1;
    private final transient Call call;
    private final String requestId;
    final boolean perhaps; // by an attempt of the same request

    TakenException(Call call, String requestId, boolean perhaps) {
        super("the call " + call.nonce() + " was taken before, and its answer is lost; read what it should have made (request id "
            + requestId + ")", null);
        this.call = call;
        this.requestId = requestId;
        this.perhaps = perhaps;
    }

    /** Returns the nonce and the timestamp. */
    public Call call() {
        return call;
    }

    /** Returns the id of the refusal, by which the operator finds it. */
    public String requestId() {
        return requestId;
    }
}
