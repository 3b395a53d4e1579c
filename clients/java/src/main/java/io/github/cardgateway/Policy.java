package io.github.cardgateway;

import java.lang.System.Logger.Level;
import java.net.URI;
import java.time.Clock;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.Instant;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ThreadLocalRandom;

/** What all requests of one key share: attempts, waits and the clock. It sends nothing. */
public final class Policy {
    private static final System.Logger LOG = System.getLogger(Policy.class.getName());
    private static final Duration DAY = Duration.ofHours(24);

    final URI base;
    private final Signer signer;
    private int attempts = 3;
    private Duration maxWait = Duration.ofSeconds(30);
    private boolean verifies;
    private Clock clock = Clock.systemUTC();
    private volatile Duration offset = Duration.ZERO; // by which the gateway's clock is ahead

    /** Takes the scheme and host of the gateway, the key id and the secret. */
    public Policy(String baseUrl, String keyId, String secret) throws UnsignableException {
        if (baseUrl == null || !baseUrl.matches("https?://[^/?#]+(/[^?#]*)?")) {
            throw new UnsignableException("the base URL \"" + baseUrl + "\" must begin with https:// and a host");
        }
        base = URI.create(baseUrl.replaceAll("/$", ""));
        signer = new Signer(keyId, secret);
    }

    /** Sets the largest number of attempts. The default is 3. */
    public Policy attempts(int most) {
        attempts = most;
        return this;
    }

    /** Sets the longest wait before another attempt, 30 s by default. If the server asks for more, its answer is final. */
    public Policy maxWait(Duration longest) {
        maxWait = longest;
        return this;
    }

    /**
     * Makes every answer that the gateway has not signed for the request an {@link UnprovenException}. It needs a gateway with
     * the option sign_responses. The default is false.
     */
    public Policy verifyAnswers(boolean verify) {
        verifies = verify;
        return this;
    }

    /** Returns whether an answer must be verified before it is handed over. */
    boolean verifies() {
        return verifies;
    }

    /** Sets the clock of this machine. */
    public Policy clock(Clock other) {
        clock = other;
        return this;
    }

    /** Returns whether the Date of an answer from the URL may set the clock: over TLS, and from this machine. */
    public static boolean trustsDate(URI url) {
        String host = url.getHost();
        return "https".equals(url.getScheme())
            || host != null && (host.equals("localhost") || host.equals("[::1]") || host.matches("127(\\.[0-9]+){3}"));
    }

    static Optional<Duration> retryAfter(String value) {
        return value.matches("[0-9]{1,9}") ? Optional.of(Duration.ofSeconds(Long.parseLong(value))) : Optional.empty();
    }

    /** Returns the state of a new request. */
    Exchange begin(String method) {
        return new Exchange(method);
    }

    private boolean correctClock(Answer answer) {
        Object message = Json.errorFields(answer.body()).get("message");
        if (!"Request timestamp is outside the allowed window".equals(message) || !trustsDate(base)) {
            return false;
        }
        Duration found;
        try {
            Instant date = ZonedDateTime.parse(answer.header("Date").orElse(""), DateTimeFormatter.RFC_1123_DATE_TIME).toInstant();
            found = Duration.between(clock.instant(), date);
        } catch (DateTimeException e) {
            return false;
        }
        if (found.abs().compareTo(DAY) > 0) {
            return false;
        }
        offset = found;
        LOG.log(Level.WARNING, "the clock of this machine differs from the gateway''s by {0} s; set it by NTP", found.getSeconds());
        return true;
    }

    /** One request between its attempts. */
    final class Exchange {
        private final String method;
        private boolean corrected;
        private int made;
        private String nonce;

        private Exchange(String method) {
            this.method = method;
        }

        int attempts() {
            return made;
        }

        /** Returns the headers of the next attempt. */
        Map<String, String> sign(String target, byte[] body) throws UnsignableException {
            Map<String, String> headers = signer.headers(method, target, body, clock.instant().plus(offset));
            made++;
            nonce = headers.get("X-Nonce");
            if (verifies) { // an answer whose coding the library removes could not be verified
                headers.put("Accept-Encoding", "identity");
            }
            return headers;
        }

        /** Verifies the answer to the last attempt. */
        void verify(Answer answer) throws UnprovenException {
            if (verifies) {
                signer.verifyAnswer(nonce, answer, clock.instant().plus(offset));
            }
        }

        /** Returns how long to wait before another attempt, or empty if the answer is final. */
        Optional<Duration> afterAnswer(Answer answer) {
            if (answer.status() == 401 && !corrected && correctClock(answer)) {
                corrected = true;
                made--; // it was refused before anything was done
                return Optional.of(Duration.ZERO);
            }
            if (answer.status() == 401 && safe() && repeated(answer)) {
                return waitFor(Duration.ZERO);
            }
            Optional<Duration> asked = retryAfter(answer.header("Retry-After").orElse(""));
            boolean unforwarded = answer.header("X-Gateway-Forwarded").orElse("").equals("no");
            boolean may = answer.status() == 429 || answer.status() == 503 && (unforwarded || safe() && asked.isPresent());
            return may ? waitFor(asked.orElse(Duration.ZERO)) : Optional.empty();
        }

        /** The same for a connection that failed; sent is whether the server may have received the request. */
        Optional<Duration> afterFailure(boolean sent) {
            return safe() || !sent ? waitFor(Duration.ZERO) : Optional.empty();
        }

        private boolean safe() {
            return method.equals("GET") || method.equals("HEAD");
        }

        /**
         * Returns whether java.net.http has sent the request twice. When a connection is cut, it repeats a GET by itself,
         * with the old nonce, and nothing can prevent that for one client alone.
         */
        private boolean repeated(Answer answer) {
            return "Replay detected (duplicate nonce)".equals(Json.errorFields(answer.body()).get("message"));
        }

        private Optional<Duration> waitFor(Duration asked) {
            if (made >= attempts || asked.compareTo(maxWait) > 0) {
                return Optional.empty();
            }
            // Jitter, so that many clients do not come back together.
            long most = made < 6 ? 250L << made : 8000;
            return Optional.of(asked.plusMillis(ThreadLocalRandom.current().nextLong(most)));
        }
    }
}
