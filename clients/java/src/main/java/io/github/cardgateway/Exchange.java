package io.github.cardgateway;

import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ThreadLocalRandom;

/**
 * One request between its attempts, and what an answer to it means. It sends nothing. A call that may change something is signed
 * once, and each attempt sends the same bytes: the gateway accepts them once. It is signed anew only after an answer that says
 * for certain that it was not executed.
 */
final class Exchange {
    private static final String REPLAY = "Replay detected (duplicate nonce)";
    private static final String WINDOW = "Request timestamp is outside the allowed window";
    private static final Duration REPEAT_WITHIN = Duration.ofSeconds(270); // of the signature: the gateway's window is five minutes

    private final Policy policy;
    private final String method;
    private Call chosen; // by the caller
    private Call call;
    private Map<String, String> headers;
    private long signedAt; // System.nanoTime
    private int made;
    private boolean anew = true; // the next attempt is signed anew
    private boolean corrected; // the clock was set for this request
    private boolean sent; // what was signed last may be known to others
    private boolean perhaps; // an attempt was perhaps accepted

    Exchange(Policy policy, String method, Call chosen) {
        this.policy = policy;
        this.method = method;
        this.chosen = chosen;
    }

    int attempts() {
        return made;
    }

    /** Returns whether the server may have received the request. */
    boolean sent() {
        return sent;
    }

    private boolean safe() {
        return method.equals("GET") || method.equals("HEAD");
    }

    /** Returns the headers of the next attempt. */
    Map<String, String> sign(String target, byte[] body) throws UnsignableException {
        made++;
        if (anew || safe()) {
            call = chosen != null ? chosen : policy.newCall();
            headers = policy.signer.headers(method, target, body, String.valueOf(call.timestamp().getEpochSecond()), call.nonce());
            if (policy.verifies) { // an answer whose coding the library removes could not be verified
                headers.put("Accept-Encoding", "identity");
            }
            signedAt = System.nanoTime();
            chosen = null;
            anew = false;
        }
        return headers;
    }

    /**
     * Returns whether the body must be read before the answer is handed over. That of a stream of events, and of an answer that
     * is not signed although it must be, may never end.
     */
    boolean reads(Answer head) {
        if (head.status() >= 400) {
            return true;
        }
        return policy.verifies ? !head.unsigned() : !safe() && !head.header("Content-Type").orElse("").startsWith("text/event-stream");
    }

    /**
     * Returns how long to wait before another attempt, or empty if the answer is final.
     *
     * @throws CardException one of TakenException, UnknownException and, of a GET or HEAD, UnprovenException
     */
    Optional<Duration> afterAnswer(Answer answer) throws CardException {
        ApiException refused = new ApiException(answer);
        UnprovenException unproven = unproven(answer, refused);
        Duration asked = refused.retryAfter().orElse(Duration.ZERO);
        if (safe()) {
            return afterSafe(answer, refused, unproven);
        }
        sent = true;
        if (unproven != null) { // whoever has written it, it says nothing
            perhaps = true;
            return againOrUnknown(Duration.ZERO, unproven);
        }
        if (refused.notExecuted()) {
            Optional<Duration> wait = again(asked);
            if (wait.isPresent()) {
                anew = true;
                sent = false;
                perhaps = false;
            }
            return wait;
        }
        if (Boolean.TRUE.equals(refused.accepted)) {
            return Optional.empty();
        }
        if (refused.is(REPLAY)) {
            throw new TakenException(call, refused.requestId(), perhaps);
        }
        if (refused.is(WINDOW) && made == 1 && !corrected && policy.correctClock(answer)) {
            anew = true;
            corrected = true;
            sent = false;
            made = 0; // it was refused before anything was done
            return Optional.of(Duration.ZERO);
        }
        boolean between = (refused.status() == 502 || refused.status() == 504) && !policy.verifies && !refused.ofGateway();
        if (refused.status() == 429 || refused.status() == 503 || between) {
            perhaps |= refused.accepted == null;
            return againOrUnknown(asked, refused); // the same bytes may still be accepted, from whoever has them
        }
        if (refused.ofGateway() && perhaps) {
            throw new UnknownException(call, made, refused);
        }
        return Optional.empty();
    }

    private Optional<Duration> afterSafe(Answer answer, ApiException refused, UnprovenException unproven) throws UnprovenException {
        if (refused.is(WINDOW) && !corrected && unproven == null && policy.correctClock(answer)) {
            corrected = true;
            made--; // it was refused before anything was done
            return Optional.of(Duration.ZERO);
        }
        // When a connection is cut, java.net.http repeats a GET by itself, with the old nonce, and nothing can prevent that for
        // one client alone.
        boolean may = refused.is(REPLAY) || refused.status() == 429 || refused.status() == 503
            && (refused.retryAfter().isPresent() || answer.header("X-Gateway-Forwarded").orElse("").equals("no"));
        Optional<Duration> wait = may ? again(refused.retryAfter().orElse(Duration.ZERO)) : Optional.empty();
        if (wait.isEmpty() && unproven != null) {
            throw unproven;
        }
        return wait;
    }

    /**
     * Returns why the answer is not believed, or null. Of a refusal because of our clock, the time cannot be compared with it;
     * the nonce shows that the answer is new.
     */
    private UnprovenException unproven(Answer answer, ApiException refused) {
        String timestamp = answer.joined("X-Response-Timestamp");
        Instant now = refused.is(WINDOW) && timestamp.matches("[0-9]{1,11}") ? Instant.ofEpochSecond(Long.parseLong(timestamp)) : policy.now();
        try {
            if (policy.verifies) {
                policy.signer.verifyAnswer(call.nonce(), answer, now);
            }
            return null;
        } catch (UnprovenException e) {
            return e;
        }
    }

    /** The same as afterAnswer for a connection that failed; maybe is whether the server may have received the request. */
    Optional<Duration> afterFailure(boolean maybe) {
        sent |= maybe;
        perhaps |= maybe;
        return again(Duration.ZERO);
    }

    /** Throws that the outcome of a call is not known, if it was sent and no other attempt is made because of the error. */
    void lost(IOException e) throws UnknownException {
        if (sent && !safe()) {
            throw new UnknownException(call, made, e);
        }
    }

    private Optional<Duration> againOrUnknown(Duration asked, CardException e) throws UnknownException {
        Optional<Duration> wait = again(asked);
        if (wait.isEmpty()) {
            throw new UnknownException(call, made, e);
        }
        return wait;
    }

    private Optional<Duration> again(Duration asked) {
        // Jitter, so that many clients do not come back together.
        Duration wait = asked.plusMillis(ThreadLocalRandom.current().nextLong(made < 5 ? 250L << made : 8000));
        boolean late = !safe() && wait.plusNanos(System.nanoTime() - signedAt).compareTo(REPEAT_WITHIN) > 0;
        return made >= policy.attempts || asked.compareTo(policy.maxWait) > 0 || late ? Optional.empty() : Optional.of(wait);
    }
}
