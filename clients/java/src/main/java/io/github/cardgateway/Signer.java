package io.github.cardgateway;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.time.Instant;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** The credentials of one key. */
public final class Signer {
    private static final List<String> METHODS = List.of("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE");
    private static final Pattern PATH = Pattern.compile("/[!$&-;=@-\\[\\]_a-z~]*");
    private static final Pattern QUERY = Pattern.compile("[!\"$&-~]*");
    private static final Pattern ESCAPE = Pattern.compile("%([0-9A-Fa-f]{2})");
    private static final Pattern CONTROL = Pattern.compile("[\\x00-\\x1f\\x7f\\\\]");
    private static final Pattern OVERLONG = Pattern.compile("[\\xc0\\xc1][\\x80-\\xbf]|\\xe0[\\x80-\\x9f]|\\xf0[\\x80-\\x8f]");
    private static final String BLANK = "+\\s\\p{Z}\\p{Cf}\\x{85}\\x{fffd}";
    private static final Pattern VANISHING = Pattern.compile("[." + BLANK + "]*|[" + BLANK + "]+\\..*", Pattern.DOTALL);
    private static final long MAX_AGE = 300; // seconds by which the timestamp of an answer may differ from the clock
    private static final SecureRandom RANDOM = new SecureRandom();

    private final String keyId;
    private final SecretKeySpec secret;

    /** Takes the X-API-Key value and the signing secret, exactly as it was shown. */
    public Signer(String keyId, String secret) throws UnsignableException {
        if (keyId == null || keyId.isEmpty() || secret == null || secret.isEmpty()) {
            throw new UnsignableException("the key id or the secret is empty; set both");
        }
        this.keyId = keyId;
        this.secret = new SecretKeySpec(secret.getBytes(StandardCharsets.UTF_8), "HmacSHA256");
    }

    /**
     * Returns the five headers of one attempt at now.
     *
     * @param method in upper case
     * @param target the path and query as they are written on the wire
     */
    public Map<String, String> headers(String method, String target, byte[] body, Instant now) throws UnsignableException {
        return headers(method, target, body, String.valueOf(now.getEpochSecond()), nonce());
    }

    /** Returns 16 random bytes in hexadecimal. */
    static String nonce() {
        byte[] nonce = new byte[16];
        RANDOM.nextBytes(nonce);
        StringBuilder hex = new StringBuilder();
        for (byte b : nonce) {
            hex.append(String.format("%02x", b));
        }
        return hex.toString();
    }

    /** As above, with a timestamp and a nonce of the caller's. */
    public Map<String, String> headers(String method, String target, byte[] body, String timestamp, String nonce)
        throws UnsignableException {
        if (!METHODS.contains(method)) {
            throw new UnsignableException("the method \"" + method + "\" is not one of " + String.join(", ", METHODS));
        }
        checkTarget(target);
        String hash = hash(body);
        Map<String, String> headers = new LinkedHashMap<>();
        headers.put("X-API-Key", keyId);
        headers.put("X-Timestamp", timestamp);
        headers.put("X-Nonce", nonce);
        headers.put("X-Body-Hash", hash);
        headers.put("X-Signature", mac(method, target, timestamp, nonce, hash));
        return headers;
    }

    /**
     * Verifies that the gateway has signed the answer to the request that was sent with the nonce.
     *
     * @param answer as it was received, before a Content-Encoding is removed
     * @throws UnprovenException it has not
     */
    public void verifyAnswer(String nonce, Answer answer, Instant now) throws UnprovenException {
        if (answer.unsigned()) {
            String says = answer.status() < 400 ? "" : "; it says \"" + new ApiException(answer).reason() + "\"";
            throw new UnprovenException(answer, true, "it is not signed" + says);
        }
        String id = answer.joined("X-Request-Id");
        String timestamp = answer.joined("X-Response-Timestamp");
        String hash = answer.joined("X-Response-Body-Hash");
        String want = mac("card-gateway-response-v1", String.valueOf(answer.status()), id, timestamp, nonce, hash);
        if (id.isEmpty() || !same(answer.joined("X-Response-Signature"), want)) {
            throw new UnprovenException(answer, false,
                "X-Response-Signature is not that of the status, the request id, the timestamp, the nonce and the hash");
        }
        if (!same(hash, hash(answer.body()))) {
            throw new UnprovenException(answer, false, "X-Response-Body-Hash is not that of the body");
        }
        if (!timestamp.matches("[0-9]{1,12}") || Math.abs(now.getEpochSecond() - Long.parseLong(timestamp)) > MAX_AGE) {
            throw new UnprovenException(answer, false, "X-Response-Timestamp is more than five minutes from the clock");
        }
    }

    private static boolean same(String given, String want) {
        return MessageDigest.isEqual(given.getBytes(StandardCharsets.UTF_8), want.getBytes(StandardCharsets.UTF_8));
    }

    private static String hash(byte[] body) {
        try {
            return Base64.getEncoder().encodeToString(MessageDigest.getInstance("SHA-256").digest(body));
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("every Java has SHA-256", e);
        }
    }

    private String mac(String... parts) {
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(secret);
            return Base64.getEncoder().encodeToString(mac.doFinal(String.join("\n", parts).getBytes(StandardCharsets.UTF_8)));
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("every Java has HMAC", e);
        }
    }

    private static String unescaped(String text) {
        return ESCAPE.matcher(text).replaceAll("");
    }

    /** Refuses a path and query that the gateway would refuse, because two servers could read them in two ways. */
    static void checkTarget(String target) throws UnsignableException {
        int question = target.indexOf('?');
        String path = question < 0 ? target : target.substring(0, question);
        String query = question < 0 ? "" : target.substring(question + 1);
        if (target.length() > 8192) {
            throw new UnsignableException("the path and query are longer than 8 KiB");
        }
        if (!path.startsWith("/")) {
            throw new UnsignableException("the path must begin with a slash");
        }
        if (!PATH.matcher(unescaped(path)).matches() || !QUERY.matcher(unescaped(query)).matches()) {
            throw new UnsignableException("the path or query holds a character that must be percent-encoded, or a % without two "
                + "hexadecimal digits: write \u00e9 as %C3%A9, a blank as %20");
        }
        String decoded = path; // one character for each byte
        while (ESCAPE.matcher(decoded).find()) {
            decoded = ESCAPE.matcher(decoded).replaceAll(
                found -> Matcher.quoteReplacement(String.valueOf((char) Integer.parseInt(found.group(1), 16))));
        }
        if (decoded.split("/", -1).length != path.split("/", -1).length || CONTROL.matcher(decoded).find()) {
            throw new UnsignableException("the path holds an encoded slash, backslash or control character; no identifier has one");
        }
        if (OVERLONG.matcher(decoded).find()) {
            throw new UnsignableException("the path holds overlong UTF-8; encode the shortest form of the character");
        }
        String[] segments = decoded.split("/", -1);
        int last = segments[segments.length - 1].isEmpty() ? segments.length - 1 : segments.length;
        for (int i = 1; i < last; i++) {
            byte[] name = segments[i].split(";", -1)[0].getBytes(StandardCharsets.ISO_8859_1);
            if (VANISHING.matcher(new String(name, StandardCharsets.UTF_8)).matches()) {
                throw new UnsignableException("the path holds an empty segment, or one of dots and blanks; is an identifier empty?");
            }
        }
    }
}
