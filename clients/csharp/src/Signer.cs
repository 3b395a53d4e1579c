using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Security.Cryptography;
using System.Text;
using System.Text.RegularExpressions;

namespace CardGateway
{
    /// <summary>The credentials of one key.</summary>
    public sealed class Signer
    {
        private static readonly string[] Methods = { "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE" };
        private static readonly TimeSpan Oldest = TimeSpan.FromMinutes(5);

        private readonly string keyId;
        private readonly byte[] secret;

        /// <summary>Takes the X-API-Key value and the signing secret, exactly as it was shown.</summary>
        public Signer(string keyId, string secret)
        {
            if (string.IsNullOrEmpty(keyId) || string.IsNullOrEmpty(secret))
            {
                throw new UnsignableException("the key id or the secret is empty; set both");
            }
            this.keyId = keyId;
            this.secret = Encoding.UTF8.GetBytes(secret);
        }

        /// <summary>Returns the five headers of one attempt at a moment.</summary>
        /// <param name="method">In upper case.</param>
        /// <param name="target">The path and query as they are written on the wire.</param>
        /// <param name="body">Its bytes; none: an empty array.</param>
        /// <param name="now">The time of the gateway.</param>
        public IDictionary<string, string> Headers(string method, string target, byte[] body, DateTimeOffset now)
        {
            return Headers(method, target, body, now.ToUnixTimeSeconds().ToString(CultureInfo.InvariantCulture), Nonce());
        }

        /// <summary>Returns 16 random bytes in hexadecimal.</summary>
        internal static string Nonce()
        {
            var nonce = new byte[16];
            using (var random = RandomNumberGenerator.Create())
            {
                random.GetBytes(nonce);
            }
            return string.Concat(nonce.Select(b => b.ToString("x2", CultureInfo.InvariantCulture)));
        }

        /// <summary>As above, with a timestamp and a nonce of the caller's.</summary>
        public IDictionary<string, string> Headers(string method, string target, byte[] body, string timestamp, string nonce)
        {
            if (!Methods.Contains(method))
            {
                throw new UnsignableException("the method \"" + method + "\" is not one of " + string.Join(", ", Methods));
            }
            Target.Check(target);
            var hash = Hash(body);
            return new Dictionary<string, string>(StringComparer.OrdinalIgnoreCase)
            {
                { "X-API-Key", keyId },
                { "X-Timestamp", timestamp },
                { "X-Nonce", nonce },
                { "X-Body-Hash", hash },
                { "X-Signature", Mac(method, target, timestamp, nonce, hash) },
            };
        }

        /// <summary>Verifies that the gateway has signed the answer to the request that was sent with the nonce.</summary>
        /// <param name="nonce">X-Nonce of the request.</param>
        /// <param name="answer">As it was received, before a Content-Encoding is removed.</param>
        /// <param name="now">The time of the gateway.</param>
        /// <exception cref="UnprovenException">It has not.</exception>
        public void VerifyAnswer(string nonce, Answer answer, DateTimeOffset now)
        {
            if (Unsigned(answer))
            {
                var says = answer.Status < 400 ? "" : "; it says \"" + new ApiException(answer).Reason + "\"";
                throw new UnprovenException(answer, true, "it is not signed" + says);
            }
            string id = answer.Header("X-Request-Id"), timestamp = answer.Header("X-Response-Timestamp");
            string hash = answer.Header("X-Response-Body-Hash"), signature = answer.Header("X-Response-Signature");
            var status = answer.Status.ToString(CultureInfo.InvariantCulture);
            if (id == "" || !Same(signature, Mac("card-gateway-response-v1", status, id, timestamp, nonce, hash)))
            {
                throw new UnprovenException(answer, false,
                    "X-Response-Signature is not that of the status, the request id, the timestamp, the nonce and the hash");
            }
            if (!Same(hash, Hash(answer.Body)))
            {
                throw new UnprovenException(answer, false, "X-Response-Body-Hash is not that of the body");
            }
            var answered = AnsweredAt(answer);
            if (answered == null || (now - answered.Value).Duration() >= Oldest.Add(TimeSpan.FromSeconds(1)))
            {
                throw new UnprovenException(answer, false, "X-Response-Timestamp is more than five minutes from the clock");
            }
        }

        internal static bool Unsigned(Answer answer)
            => !answer.Has("X-Response-Timestamp") && !answer.Has("X-Response-Body-Hash") && !answer.Has("X-Response-Signature");

        /// <summary>Returns the time of a signed answer, or null.</summary>
        internal static DateTimeOffset? AnsweredAt(Answer answer)
        {
            var timestamp = answer.Header("X-Response-Timestamp");
            return Regex.IsMatch(timestamp, @"\A[0-9]{1,11}\z")
                ? DateTimeOffset.FromUnixTimeSeconds(long.Parse(timestamp, CultureInfo.InvariantCulture))
                : (DateTimeOffset?)null;
        }

        private string Mac(params string[] parts)
        {
            using (var mac = new HMACSHA256(secret))
            {
                return Convert.ToBase64String(mac.ComputeHash(Encoding.UTF8.GetBytes(string.Join("\n", parts))));
            }
        }

        private static string Hash(byte[] body)
        {
            using (var hash = SHA256.Create())
            {
                return Convert.ToBase64String(hash.ComputeHash(body));
            }
        }

        /// <summary>Whether the texts are equal. The time that it takes does not depend on where they differ.</summary>
        private static bool Same(string given, string want)
        {
            var difference = given.Length ^ want.Length;
            for (var i = 0; i < Math.Min(given.Length, want.Length); i++)
            {
                difference |= given[i] ^ want[i];
            }
            return difference == 0;
        }
    }
}
