package io.github.cardgateway;

import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** As much JSON as the client needs, so that it needs no library. */
final class Json {
    private static final int DEEPEST = 64;
    private final String text;
    private int at;
    private int depth;

    private Json(String text) {
        this.text = text;
    }

    static Object parse(byte[] body) {
        Json json = new Json(new String(body, StandardCharsets.UTF_8));
        Object value = json.value();
        json.blanks();
        if (json.at < json.text.length()) {
            throw json.fault();
        }
        return value;
    }

    /** Returns the members of an object; none if the body is something else. */
    static Map<?, ?> object(byte[] body) {
        try {
            Object document = parse(body);
            return document instanceof Map ? (Map<?, ?>) document : Map.of();
        } catch (IllegalArgumentException e) {
            return Map.of();
        }
    }

    /** Returns the text of a Map, Iterable, Number, Boolean or null; anything else is written as a string. */
    static String write(Object value) {
        StringBuilder b = new StringBuilder();
        write(b, value);
        return b.toString();
    }

    private static void write(StringBuilder b, Object value) {
        if (value instanceof Map) {
            String separator = "{";
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                quote(b.append(separator), String.valueOf(entry.getKey()));
                write(b.append(':'), entry.getValue());
                separator = ",";
            }
            b.append(((Map<?, ?>) value).isEmpty() ? "{}" : "}");
        } else if (value instanceof Iterable) {
            b.append('[');
            for (Iterator<?> each = ((Iterable<?>) value).iterator(); each.hasNext();) {
                write(b, each.next());
                b.append(each.hasNext() ? "," : "");
            }
            b.append(']');
        } else if (value == null || value instanceof Number || value instanceof Boolean) {
            b.append(value);
        } else {
            quote(b, value.toString());
        }
    }

    private static void quote(StringBuilder b, String s) {
        b.append('"');
        for (char c : s.toCharArray()) {
            if (c == '"' || c == '\\') {
                b.append('\\').append(c);
            } else if (c < ' ') {
                b.append(String.format("\\u%04x", (int) c));
            } else {
                b.append(c);
            }
        }
        b.append('"');
    }

    private Object value() {
        blanks();
        if (at >= text.length() || ++depth > DEEPEST) {
            throw fault();
        }
        try {
            switch (text.charAt(at)) {
                case '{':
                    return object();
                case '[':
                    return list();
                case '"':
                    return string();
                default:
                    return word();
            }
        } finally {
            depth--;
        }
    }

    private Map<String, Object> object() {
        Map<String, Object> found = new LinkedHashMap<>();
        at++;
        if (take('}')) {
            return found;
        }
        do {
            blanks();
            String name = string();
            if (!take(':')) {
                throw fault();
            }
            found.put(name, value());
        } while (take(','));
        return end('}', found);
    }

    private List<Object> list() {
        List<Object> found = new ArrayList<>();
        at++;
        if (take(']')) {
            return found;
        }
        do {
            found.add(value());
        } while (take(','));
        return end(']', found);
    }

    private <T> T end(char bracket, T found) {
        if (!take(bracket)) {
            throw fault();
        }
        return found;
    }

    private String string() {
        if (at >= text.length() || text.charAt(at) != '"') {
            throw fault();
        }
        StringBuilder b = new StringBuilder();
        for (at++; at < text.length(); at++) {
            char c = text.charAt(at);
            if (c == '"') {
                at++;
                return b.toString();
            }
            b.append(c == '\\' ? escaped() : c);
        }
        throw fault();
    }

    private char escaped() {
        at++;
        int simple = at < text.length() ? "\"\\/bfnrt".indexOf(text.charAt(at)) : -1;
        if (simple >= 0) {
            return "\"\\/\b\f\n\r\t".charAt(simple);
        }
        if (at + 4 >= text.length() || text.charAt(at) != 'u') {
            throw fault();
        }
        at += 4;
        try {
            return (char) Integer.parseInt(text.substring(at - 3, at + 1), 16);
        } catch (NumberFormatException e) {
            throw fault();
        }
    }

    private Object word() {
        int from = at;
        while (at < text.length() && "{}[],:\" \t\r\n".indexOf(text.charAt(at)) < 0) {
            at++;
        }
        String word = text.substring(from, at);
        switch (word) {
            case "true":
                return true;
            case "false":
                return false;
            case "null":
                return null;
            default:
                try {
                    return new BigDecimal(word);
                } catch (NumberFormatException e) {
                    throw fault();
                }
        }
    }

    private void blanks() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private boolean take(char c) {
        blanks();
        boolean found = at < text.length() && text.charAt(at) == c;
        at += found ? 1 : 0;
        return found;
    }

    private IllegalArgumentException fault() {
        return new IllegalArgumentException("no JSON at character " + at);
    }
}
