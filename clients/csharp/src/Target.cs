using System.Globalization;
using System.Linq;
using System.Text;
using System.Text.RegularExpressions;

namespace CardGateway
{
    /// <summary>The path and query of a request, as they are written on the wire.</summary>
    internal static class Target
    {
        private static readonly Regex Path = new Regex(@"\A/(?:[!$&-;=@-\[\]_a-z~]|%[0-9A-Fa-f]{2})*\z", RegexOptions.CultureInvariant);
        private static readonly Regex Query = new Regex(@"\A(?:[!""$&-~]|%[0-9A-Fa-f]{2})*\z", RegexOptions.CultureInvariant);
        private static readonly Regex Escape = new Regex("%([0-9A-Fa-f]{2})", RegexOptions.CultureInvariant);
        private static readonly Regex Control = new Regex(@"[\x00-\x1f\x7f\\]", RegexOptions.CultureInvariant);
        private static readonly Regex Overlong = new Regex(@"[\xc0\xc1][\x80-\xbf]|\xe0[\x80-\x9f]|\xf0[\x80-\x8f]", RegexOptions.CultureInvariant);

        /// <summary>Refuses what the gateway would refuse, because two servers could read it in two ways.</summary>
        internal static void Check(string target)
        {
            var question = target.IndexOf('?');
            var path = question < 0 ? target : target.Substring(0, question);
            var query = question < 0 ? "" : target.Substring(question + 1);
            if (target.Length > 8192)
            {
                throw new UnsignableException("the path and query are longer than 8 KiB");
            }
            if (path == "" || path[0] != '/')
            {
                throw new UnsignableException("the path must begin with a slash");
            }
            if (!Path.IsMatch(path) || !Query.IsMatch(query))
            {
                throw new UnsignableException("the path or query holds a character that must be percent-encoded, or a % without two "
                    + "hexadecimal digits: write \u00e9 as %C3%A9, a blank as %20 (Uri.EscapeDataString)");
            }
            var decoded = path; // one character for each byte
            while (Escape.IsMatch(decoded))
            {
                decoded = Escape.Replace(decoded, found =>
                    ((char)int.Parse(found.Groups[1].Value, NumberStyles.AllowHexSpecifier, CultureInfo.InvariantCulture)).ToString());
            }
            if (decoded.Count(c => c == '/') != path.Count(c => c == '/') || Control.IsMatch(decoded))
            {
                throw new UnsignableException("the path holds an encoded slash, backslash or control character; no identifier has one");
            }
            if (Overlong.IsMatch(decoded))
            {
                throw new UnsignableException("the path holds overlong UTF-8; encode the shortest form of the character");
            }
            var inner = decoded.Substring(1, decoded.Length - (decoded.Length > 1 && decoded[decoded.Length - 1] == '/' ? 2 : 1));
            if (path != "/" && inner.Split('/').Any(Vanishes))
            {
                throw new UnsignableException("the path holds an empty segment, or one of dots and blanks; is an identifier empty?");
            }
        }

        /// <summary>Whether some servers drop the segment.</summary>
        private static bool Vanishes(string segment)
        {
            var bytes = segment.Split(';')[0].Select(c => (byte)c).ToArray();
            var name = Encoding.UTF8.GetString(bytes);
            var dot = name.IndexOf('.');
            if (dot > 0 && Blanks(name.Substring(0, dot)))
            {
                return true;
            }
            return Blanks(name.Replace(".", ""));
        }

        private static bool Blanks(string text)
        {
            for (var i = 0; i < text.Length; i += char.IsSurrogatePair(text, i) ? 2 : 1)
            {
                if (text[i] != '+' && text[i] != '\ufffd' && !char.IsWhiteSpace(text, i)
                    && CharUnicodeInfo.GetUnicodeCategory(text, i) != UnicodeCategory.Format)
                {
                    return false;
                }
            }
            return true;
        }
    }
}
