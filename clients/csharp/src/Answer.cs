using System;
using System.Collections.Generic;
using System.Linq;
using System.Net.Http;

namespace CardGateway
{
    /// <summary>An answer of the gateway or the issuer.</summary>
    public sealed class Answer
    {
        private readonly Dictionary<string, string> headers = new Dictionary<string, string>(StringComparer.OrdinalIgnoreCase);

        /// <summary>Takes the status, the headers by name, and the bytes of the body.</summary>
        public Answer(int status, IEnumerable<KeyValuePair<string, IEnumerable<string>>> headers, byte[] body)
        {
            Status = status;
            Body = body;
            foreach (var header in headers)
            {
                this.headers[header.Key] = string.Join(", ", header.Value);
            }
        }

        internal static Answer Of(HttpResponseMessage response, byte[] body)
        {
            var ofContent = response.Content == null ? null : response.Content.Headers;
            var none = Enumerable.Empty<KeyValuePair<string, IEnumerable<string>>>();
            return new Answer((int)response.StatusCode, response.Headers.Concat(ofContent ?? none), body);
        }

        /// <summary>The status.</summary>
        public int Status { get; }

        /// <summary>The bytes of the body.</summary>
        public byte[] Body { get; }

        /// <summary>Returns a header, several of one name with commas between; empty if there is none.</summary>
        public string Header(string name)
        {
            string value;
            return headers.TryGetValue(name, out value) ? value : "";
        }

        internal bool Has(string name) => headers.ContainsKey(name);

        /// <summary>
        /// Returns the JSON of the body, or a value in it, by the names of objects and the indices of lists that lead to it: an
        /// IDictionary&lt;string, object&gt;, List&lt;object&gt;, string, decimal, bool or null.
        /// </summary>
        /// <exception cref="FormatException">The body is not JSON.</exception>
        public object Json(params object[] way)
        {
            var value = CardGateway.Json.Parse(Body);
            foreach (var step in way)
            {
                value = step is int ? ((List<object>)value)[(int)step] : ((IDictionary<string, object>)value)[(string)step];
            }
            return value;
        }
    }
}
