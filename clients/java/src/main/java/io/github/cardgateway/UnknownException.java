package io.github.cardgateway;

/**
 * It is not known whether the call was executed, or will be before {@link Call#until}. {@link CardClient#closeCall} settles it.
 * The error of the last attempt is the cause.
 */
public final class UnknownException extends CardException {
    private static final long serialVersionUID = 1;
    private final transient Call call;
    private final int attempts;

    UnknownException(Call call, int attempts, Exception cause) {
        super("it is not known whether the call " + call.nonce() + " was executed, and it may be until " + call.until()
            + "; close it, or read what it should have made: after " + attempts + " attempts: " + cause, cause);
        this.call = call;
        this.attempts = attempts;
    }

    /** Returns the nonce, the timestamp, and until when it may be executed. */
    public Call call() {
        return call;
    }

    /** Returns how many attempts were made. */
    public int attempts() {
        return attempts;
    }
}
