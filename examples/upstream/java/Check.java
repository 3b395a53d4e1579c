import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import java.util.Map;

/**
 * Verifies requests from standard input, one JSON document on each line, and prints which claim of each
 * is wrong. The tests of Card Gateway run it.
 */
final class Check {
    public static void main(String[] args) throws Exception {
        Assertion verifier = null;
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String text = in.readLine(); text != null; text = in.readLine()) {
            Map<?, ?> line = (Map<?, ?>) Json.read(text);
            if (line.get("Keys") instanceof Map<?, ?> keys) {
                verifier = new Assertion(keys, (String) line.get("Issuer"), (String) line.get("Audience"));
                continue;
            }
            List<String> assertions = line.get("Assertions") instanceof List<?> all ? all.stream().map(String.class::cast).toList() : List.of();
            byte[] body = line.get("Body") instanceof String encoded ? Base64.getDecoder().decode(encoded) : new byte[0];
            try {
                Map<?, ?> claims = verifier.verify(assertions, (String) line.get("Method"), (String) line.get("Target"), body, (Long) line.get("Now"));
                System.out.println("accepted " + claims.get("sub") + " " + claims.get("tenant"));
            } catch (Assertion.Refused err) {
                System.out.println("refused " + err.claim);
            }
        }
    }
}
