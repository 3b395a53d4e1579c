package io.github.cardgateway;

import java.time.Duration;
import java.time.Instant;

/** Names one call: what is signed once, and accepted at most once. */
public final class Call {
    private final String nonce;
    private final Instant timestamp;

    /** Takes a text that no other request of the key has, and the time; {@link CardClient#newCall} makes both. */
    public Call(String nonce, Instant timestamp) {
        this.nonce = nonce;
        this.timestamp = Instant.ofEpochSecond(timestamp.getEpochSecond());
    }

    /** Returns the nonce. */
    public String nonce() {
        return nonce;
    }

    /** Returns the timestamp, in whole seconds. */
    public Instant timestamp() {
        return timestamp;
    }

    /** Returns when nothing can execute the call any more: after the gateway's window, and a minute for the clocks. */
    public Instant until() {
        return timestamp.plus(Duration.ofMinutes(6));
    }
}
