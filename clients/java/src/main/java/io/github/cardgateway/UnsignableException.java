package io.github.cardgateway;

/** The request cannot be signed; nothing was sent. The message says what to do. */
public final class UnsignableException extends CardException {
    private static final long serialVersionUID = 1;

    UnsignableException(String message) {
        super(message, null);
    }
}
