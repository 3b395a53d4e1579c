package io.github.cardgateway;

import java.io.IOException;
import java.lang.System.Logger.Level;
import java.net.ConnectException;
import java.net.URI;
import java.net.UnknownHostException;
import java.net.http.HttpConnectTimeoutException;
import java.security.cert.CertificateException;
import java.time.Clock;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.Instant;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.Optional;
import javax.net.ssl.SSLPeerUnverifiedException;

/** What all requests of one key share: attempts, waits and the clock. It sends nothing. */
public final class Policy {
    private static final System.Logger LOG = System.getLogger(Policy.class.getName());
    private static final Duration DAY = Duration.ofHours(24);

    final URI base;
    final Signer signer;
    int attempts = 3;
    Duration maxWait = Duration.ofSeconds(30);
    boolean verifies;
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

    /** Sets the largest number of attempts; with 1, nothing is repeated. The default is 3. */
    public Policy attempts(int most) {
        attempts = most;
        return this;
    }

    /** Sets the longest wait before another attempt, 30 s by default. If the server asks for more, there is none. */
    public Policy maxWait(Duration longest) {
        maxWait = longest;
        return this;
    }

    /**
     * Believes only answers that the gateway has signed for the request; the error for others is an {@link UnprovenException}.
     * It needs a gateway with the option sign_responses. Without it somebody between can forge answers, and nothing is certain.
     * The default is false.
     */
    public Policy verifyAnswers(boolean verify) {
        verifies = verify;
        return this;
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

    /**
     * Returns whether the server may have received the request of this error. A certificate is refused before anything is sent;
     * other errors of TLS can come after it.
     */
    static boolean maybeSent(IOException e) {
        for (Throwable cause = e; cause != null; cause = cause.getCause()) {
            if (cause instanceof ConnectException || cause instanceof UnknownHostException || cause instanceof HttpConnectTimeoutException
                || cause instanceof CertificateException || cause instanceof SSLPeerUnverifiedException) {
                return false;
            }
        }
        return true;
    }

    /** Returns a nonce and the time of the gateway's clock, as far as it is known, to be stored before a call is sent. */
    public Call newCall() {
        return new Call(Signer.nonce(), now());
    }

    Instant now() {
        return clock.instant().plus(offset);
    }

    /** Takes over the gateway's clock from an answer, and returns whether another attempt is worth while. */
    boolean correctClock(Answer answer) {
        Duration found;
        try {
            Instant date;
            if (verifies) {
                date = Instant.ofEpochSecond(Long.parseLong(answer.joined("X-Response-Timestamp")));
            } else if (trustsDate(base)) {
                date = ZonedDateTime.parse(answer.header("Date").orElse(""), DateTimeFormatter.RFC_1123_DATE_TIME).toInstant();
            } else {
                return false;
            }
            found = Duration.between(clock.instant(), date);
        } catch (DateTimeException | NumberFormatException e) {
            return false;
        }
        if (found.abs().compareTo(DAY) > 0) {
            return false;
        }
        offset = found;
        LOG.log(Level.WARNING, "the clock of this machine differs from the gateway''s by {0} s; set it by NTP", found.getSeconds());
        return true;
    }
}
