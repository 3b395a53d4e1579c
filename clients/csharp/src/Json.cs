using System;
using System.Collections.Generic;
using System.Globalization;
using System.Text;

namespace CardGateway
{
    /// <summary>As much JSON as the client needs, so that it needs no package.</summary>
    internal sealed class Json
    {
        private const int Deepest = 64;
        private readonly string text;
        private int at;
        private int depth;

        private Json(string text)
        {
            this.text = text;
        }

        internal static object Parse(byte[] body)
        {
            var json = new Json(Encoding.UTF8.GetString(body));
            var value = json.Value();
            json.Blanks();
            if (json.at < json.text.Length)
            {
                throw json.Fault();
            }
            return value;
        }

        /// <summary>Returns the members of an object; none if the body is something else.</summary>
        internal static IDictionary<string, object> Object(byte[] body)
        {
            try
            {
                return Parse(body) as IDictionary<string, object> ?? new Dictionary<string, object>();
            }
            catch (FormatException)
            {
                return new Dictionary<string, object>();
            }
        }

        private object Value()
        {
            Blanks();
            if (at >= text.Length || depth >= Deepest)
            {
                throw Fault();
            }
            depth++;
            var first = text[at];
            var value = first == '{' ? Members() : first == '[' ? Items() : first == '"' ? String() : Word();
            depth--;
            return value;
        }

        private object Members()
        {
            var found = new Dictionary<string, object>();
            at++;
            if (Take('}'))
            {
                return found;
            }
            do
            {
                Blanks();
                var name = String();
                Need(':');
                found[name] = Value();
            }
            while (Take(','));
            Need('}');
            return found;
        }

        private object Items()
        {
            var found = new List<object>();
            at++;
            if (Take(']'))
            {
                return found;
            }
            do
            {
                found.Add(Value());
            }
            while (Take(','));
            Need(']');
            return found;
        }

        private string String()
        {
            if (at >= text.Length || text[at] != '"')
            {
                throw Fault();
            }
            var b = new StringBuilder();
            for (at++; at < text.Length; at++)
            {
                if (text[at] == '"')
                {
                    at++;
                    return b.ToString();
                }
                b.Append(text[at] == '\\' ? Escaped() : text[at]);
            }
            throw Fault();
        }

        private char Escaped()
        {
            at++;
            var simple = at < text.Length ? "\"\\/bfnrt".IndexOf(text[at]) : -1;
            if (simple >= 0)
            {
                return "\"\\/\b\f\n\r\t"[simple];
            }
            ushort code;
            if (at + 4 >= text.Length || text[at] != 'u'
                || !ushort.TryParse(text.Substring(at + 1, 4), NumberStyles.AllowHexSpecifier, CultureInfo.InvariantCulture, out code))
            {
                throw Fault();
            }
            at += 4;
            return (char)code;
        }

        private object Word()
        {
            var from = at;
            while (at < text.Length && "{}[],:\" \t\r\n".IndexOf(text[at]) < 0)
            {
                at++;
            }
            var word = text.Substring(from, at - from);
            decimal number;
            switch (word)
            {
                case "true":
                    return true;
                case "false":
                    return false;
                case "null":
                    return null;
            }
            if (!decimal.TryParse(word, NumberStyles.Float, CultureInfo.InvariantCulture, out number))
            {
                throw Fault();
            }
            return number;
        }

        private void Blanks()
        {
            while (at < text.Length && " \t\r\n".IndexOf(text[at]) >= 0)
            {
                at++;
            }
        }

        private bool Take(char c)
        {
            Blanks();
            var found = at < text.Length && text[at] == c;
            at += found ? 1 : 0;
            return found;
        }

        private void Need(char c)
        {
            if (!Take(c))
            {
                throw Fault();
            }
        }

        private FormatException Fault() => new FormatException("no JSON at character " + at);
    }
}
