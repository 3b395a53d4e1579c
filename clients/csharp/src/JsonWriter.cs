using System;
using System.Collections;
using System.Globalization;
using System.Text;

namespace CardGateway
{
    /// <summary>Writes a value as JSON.</summary>
    internal static class JsonWriter
    {
        internal static string Write(object value)
        {
            var b = new StringBuilder();
            Write(b, value);
            return b.ToString();
        }

        private static void Write(StringBuilder b, object value)
        {
            if (value == null || value is bool)
            {
                b.Append(value == null ? "null" : (bool)value ? "true" : "false");
            }
            else if (value is decimal || value is double || value is float)
            {
                b.Append(((IFormattable)value).ToString(value is decimal ? null : "R", CultureInfo.InvariantCulture));
            }
            else if (value.GetType().IsPrimitive && !(value is char))
            {
                b.Append(((IFormattable)value).ToString(null, CultureInfo.InvariantCulture));
            }
            else if (value is string || value is ValueType)
            {
                Quote(b, value is DateTime || value is DateTimeOffset
                    ? ((IFormattable)value).ToString("o", CultureInfo.InvariantCulture)
                    : Convert.ToString(value, CultureInfo.InvariantCulture));
            }
            else if (value is IEnumerable && !(value is IDictionary))
            {
                var separator = "[";
                foreach (var each in (IEnumerable)value)
                {
                    Write(b.Append(separator), each);
                    separator = ",";
                }
                b.Append(separator == "[" ? "[]" : "]");
            }
            else
            {
                Object(b, value);
            }
        }

        private static void Object(StringBuilder b, object value)
        {
            var separator = "{";
            Action<string, object> member = (name, each) =>
            {
                Quote(b.Append(separator), name);
                Write(b.Append(':'), each);
                separator = ",";
            };
            if (value is IDictionary)
            {
                foreach (DictionaryEntry entry in (IDictionary)value)
                {
                    member(Convert.ToString(entry.Key, CultureInfo.InvariantCulture), entry.Value);
                }
            }
            else
            {
                foreach (var property in value.GetType().GetProperties())
                {
                    member(property.Name, property.GetValue(value, null));
                }
            }
            b.Append(separator == "{" ? "{}" : "}");
        }

        private static void Quote(StringBuilder b, string s)
        {
            b.Append('"');
            foreach (var c in s)
            {
                if (c == '"' || c == '\\')
                {
                    b.Append('\\').Append(c);
                }
                else if (c < ' ')
                {
                    b.Append("\\u").Append(((int)c).ToString("x4", CultureInfo.InvariantCulture));
                }
                else
                {
                    b.Append(c);
                }
            }
            b.Append('"');
        }
    }
}
