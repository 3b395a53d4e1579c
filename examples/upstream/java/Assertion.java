import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.Key;
import java.security.KeyFactory;
import java.security.MessageDigest;
import java.security.PublicKey;
import java.security.Signature;
import java.security.spec.X509EncodedKeySpec;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * How a service behind Card Gateway verifies the header X-Gateway-Assertion, with the JDK alone (17
 * or later). Copy it; docs/upstream.md explains it. It accepts each assertion once.
 */
final class Assertion {
    /** Names the claim, or the part of the assertion, that is wrong: form, kid, alg, signature, or a claim. */
    @SuppressWarnings("serial")
    static final class Refused extends Exception {
        final String claim;

        Refused(String claim, String why) {
            super("assertion refused: " + claim + ": " + why);
            this.claim = claim;
        }
    }

    /** How far the clocks of gateway and service may differ, in seconds. */
    private static final long TOLERANCE = 5;

    private static final Base64.Decoder BASE64URL = Base64.getUrlDecoder();

    private record Named(String algorithm, Key key) {}

    private final Map<String, Named> keys = new HashMap<>();
    private final String issuer;
    private final String audience;
    private final Map<String, Long> used = new HashMap<>(); // exp by jti, of those that could be used again
    private long swept;

    /** The JWK set is that of card_jwks; a secret key of HS256 is a JWK of the type oct. */
    Assertion(Map<?, ?> jwkSet, String issuer, String audience) throws GeneralSecurityException {
        this.issuer = issuer;
        this.audience = audience;
        for (Object one : (List<?>) jwkSet.get("keys")) {
            Map<?, ?> jwk = (Map<?, ?>) one;
            keys.put((String) jwk.get("kid"), keyOf(jwk));
        }
    }

    private static Named keyOf(Map<?, ?> jwk) throws GeneralSecurityException {
        if ("OKP".equals(jwk.get("kty")) && "Ed25519".equals(jwk.get("crv"))) {
            byte[] prefix = {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00}; // RFC 8410
            byte[] x = BASE64URL.decode((String) jwk.get("x"));
            byte[] encoded = ByteBuffer.allocate(prefix.length + x.length).put(prefix).put(x).array();
            return new Named("EdDSA", KeyFactory.getInstance("Ed25519").generatePublic(new X509EncodedKeySpec(encoded)));
        }
        if ("oct".equals(jwk.get("kty"))) {
            return new Named("HS256", new SecretKeySpec(BASE64URL.decode((String) jwk.get("k")), "HmacSHA256"));
        }
        throw new GeneralSecurityException("a key of the type " + jwk.get("kty"));
    }

    /**
     * Returns the claims of the assertion of a request. assertions are all values of the header, target is
     * as in the request line, body is the bytes that arrived, and now is in seconds since 1970.
     */
    Map<?, ?> verify(List<String> assertions, String method, String target, byte[] body, long now)
            throws Refused, GeneralSecurityException {
        if (assertions.size() != 1) throw new Refused("form", assertions.size() + " assertions");
        Map<?, ?> claims = signed(assertions.get(0));
        want(claims, "iss", issuer);
        want(claims, "aud", audience);
        want(claims, "htm", method);
        want(claims, "htu", target);
        want(claims, "digest", Base64.getEncoder().encodeToString(MessageDigest.getInstance("SHA-256").digest(body)));
        if (time(claims, "exp") + TOLERANCE < now) throw new Refused("exp", "the assertion has expired; are the clocks right?");
        if (time(claims, "iat") > now + TOLERANCE) throw new Refused("iat", "the assertion is of the future; are the clocks right?");
        useOnce(claims, now);
        return claims;
    }

    /** Returns the claims, if a known key has signed them with the algorithm of that key. */
    private Map<?, ?> signed(String assertion) throws Refused, GeneralSecurityException {
        String[] parts = assertion.split("\\.", -1);
        if (parts.length != 3) throw new Refused("form", parts.length + " parts");
        Map<?, ?> header = object(parts[0]);
        Named named = header.get("kid") instanceof String kid ? keys.get(kid) : null;
        if (named == null) throw new Refused("kid", "no key is named so; is the key set new?");
        if (!named.algorithm.equals(header.get("alg"))) throw new Refused("alg", "the key is for " + named.algorithm);
        if (header.containsKey("crit")) throw new Refused("form", "an extension that is not known");
        byte[] content = (parts[0] + "." + parts[1]).getBytes(StandardCharsets.US_ASCII);
        if (!verifies(named, content, decoded(parts[2]))) throw new Refused("signature", "is wrong");
        return object(parts[1]);
    }

    private static boolean verifies(Named named, byte[] content, byte[] signature) throws GeneralSecurityException {
        if (named.key instanceof PublicKey key) {
            Signature verifier = Signature.getInstance("Ed25519");
            verifier.initVerify(key);
            verifier.update(content);
            try {
                return verifier.verify(signature);
            } catch (GeneralSecurityException err) {
                return false; // of another length
            }
        }
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(named.key);
        return MessageDigest.isEqual(mac.doFinal(content), signature);
    }

    private static byte[] decoded(String part) throws Refused {
        try {
            return BASE64URL.decode(part);
        } catch (IllegalArgumentException err) {
            throw new Refused("form", err.getMessage());
        }
    }

    private static Map<?, ?> object(String part) throws Refused {
        try {
            String text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(decoded(part))).toString();
            return (Map<?, ?>) Json.read(text);
        } catch (CharacterCodingException | IllegalArgumentException | ClassCastException err) {
            throw new Refused("form", err.getMessage());
        }
    }

    private static void want(Map<?, ?> claims, String name, String want) throws Refused {
        if (!want.equals(claims.get(name))) throw new Refused(name, "is " + claims.get(name) + ", and " + want + " was expected");
    }

    private static long time(Map<?, ?> claims, String name) throws Refused {
        if (claims.get(name) instanceof Long seconds) return seconds;
        throw new Refused(name, "is not a whole number");
    }

    /** A service of several processes keeps what was used in a store that they share. */
    private synchronized void useOnce(Map<?, ?> claims, long now) throws Refused {
        if (!(claims.get("jti") instanceof String id) || id.isEmpty()) throw new Refused("jti", "is missing");
        if (now > swept) {
            used.values().removeIf(expires -> expires + TOLERANCE < now);
            swept = now;
        }
        if (used.putIfAbsent(id, (Long) claims.get("exp")) != null) throw new Refused("jti", "was used before");
    }
}
