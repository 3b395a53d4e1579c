import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A strict reader of JSON, for services without a JSON library. Use yours if there is one. */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** Returns a Map, a List, a String, a Long, a BigDecimal, a Boolean or null. */
    static Object read(String text) {
        Json json = new Json(text);
        Object value = json.value(0);
        json.space();
        if (json.at != text.length()) throw json.wrong();
        return value;
    }

    private IllegalArgumentException wrong() {
        return new IllegalArgumentException("not JSON at character " + at);
    }

    private void space() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) at++;
    }

    /** Skips white space and the character, if it is next. */
    private boolean took(char c) {
        space();
        if (at >= text.length() || text.charAt(at) != c) return false;
        at++;
        return true;
    }

    private void want(char c) {
        if (!took(c)) throw wrong();
    }

    private Object value(int depth) {
        if (depth > 32) throw wrong();
        space();
        if (at >= text.length()) throw wrong();
        switch (text.charAt(at)) {
            case '{': return object(depth);
            case '[': return array(depth);
            case '"': return string();
            case 't': return word("true", Boolean.TRUE);
            case 'f': return word("false", Boolean.FALSE);
            case 'n': return word("null", null);
            default: return number();
        }
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at)) throw wrong();
        at += word.length();
        return value;
    }

    private Map<String, Object> object(int depth) {
        Map<String, Object> all = new LinkedHashMap<>();
        want('{');
        if (took('}')) return all;
        do {
            space();
            String name = string();
            want(':');
            // Two values of one name could be read in two ways.
            if (all.containsKey(name)) throw wrong();
            all.put(name, value(depth + 1));
        } while (took(','));
        want('}');
        return all;
    }

    private List<Object> array(int depth) {
        List<Object> all = new ArrayList<>();
        want('[');
        if (took(']')) return all;
        do {
            all.add(value(depth + 1));
        } while (took(','));
        want(']');
        return all;
    }

    private Object number() {
        int start = at;
        while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) at++;
        String number = text.substring(start, at);
        if (!number.matches("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]{1,3})?")) throw wrong();
        return number.matches("-?[0-9]{1,18}") ? (Object) Long.valueOf(number) : new BigDecimal(number);
    }

    private String string() {
        StringBuilder out = new StringBuilder();
        if (at >= text.length() || text.charAt(at++) != '"') throw wrong();
        while (true) {
            if (at >= text.length()) throw wrong();
            char c = text.charAt(at++);
            if (c == '"') return out.toString();
            if (c < ' ') throw wrong();
            out.append(c == '\\' ? escaped() : c);
        }
    }

    private char escaped() {
        if (at >= text.length()) throw wrong();
        char c = text.charAt(at++);
        int plain = "\"\\/bfnrt".indexOf(c);
        if (plain >= 0) return "\"\\/\b\f\n\r\t".charAt(plain);
        if (c != 'u' || at + 4 > text.length() || !text.substring(at, at + 4).matches("[0-9a-fA-F]{4}")) throw wrong();
        at += 4;
        return (char) Integer.parseInt(text.substring(at - 4, at), 16);
    }
}
