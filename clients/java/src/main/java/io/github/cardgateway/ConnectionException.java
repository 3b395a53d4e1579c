package io.github.cardgateway;

/** There was no whole answer. The error of the connection is the cause. */
public final class ConnectionException extends CardException {
    private static final long serialVersionUID = 1;
    private final boolean sent;
    private final int attempts;

    ConnectionException(boolean sent, int attempts, Throwable cause) {
        super("no answer after " + attempts + " attempts, "
            + (sent ? "the server may have received it" : "nothing was sent") + ": " + cause, cause);
        this.sent = sent;
        this.attempts = attempts;
    }

    /** Returns whether the server may have received the request. */
    public boolean sent() {
        return sent;
    }

    /** Returns how many attempts were made. */
    public int attempts() {
        return attempts;
    }
}
