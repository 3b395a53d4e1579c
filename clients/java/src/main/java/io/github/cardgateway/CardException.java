package io.github.cardgateway;

import java.io.IOException;

/** Any failure of a request. */
public class CardException extends IOException {
    private static final long serialVersionUID = 1;

    CardException(String message, Throwable cause) {
        super(message, cause);
    }
}
