package io.github.cardgateway;

/** The answer leads elsewhere, and was not followed: a signature is for one target of one host. */
public final class RedirectException extends CardException {
    private static final long serialVersionUID = 1;
    private final int status;
    private final String location;

    RedirectException(int status, String location) {
        super("the server redirects to \"" + location + "\" (" + status + "), which is not followed; correct the base URL", null);
        this.status = status;
        this.location = location;
    }

    /** Returns the status of the answer. */
    public int status() {
        return status;
    }

    /** Returns where the answer leads. */
    public String location() {
        return location;
    }
}
