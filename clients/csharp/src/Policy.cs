using System;
using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Text.RegularExpressions;

namespace CardGateway
{
    /// <summary>What all requests of one key share: attempts, waits and the clock. It sends nothing.</summary>
    public sealed class Policy
    {
        private static readonly TimeSpan Day = TimeSpan.FromHours(24);
        private readonly object mutex = new object();
        private TimeSpan offset; // by which the gateway's clock is ahead

        /// <summary>Takes the scheme and host of the gateway, the key id and the secret.</summary>
        public Policy(string baseUrl, string keyId, string secret)
        {
            Uri url;
            if (!Regex.IsMatch(baseUrl ?? "", @"\Ahttps?://[^/?#]+(/[^?#]*)?\z") || !Uri.TryCreate(baseUrl, UriKind.Absolute, out url))
            {
                throw new UnsignableException("the base URL \"" + baseUrl + "\" must begin with https:// and a host");
            }
            Base = url;
            Signer = new Signer(keyId, secret);
        }

        /// <summary>The largest number of attempts. The default is 3.</summary>
        public int Attempts { get; set; } = 3;

        /// <summary>The longest wait before another attempt, 30 s by default. If the server asks for more, its answer is final.</summary>
        public TimeSpan MaxWait { get; set; } = TimeSpan.FromSeconds(30);

        /// <summary>
        /// Makes every answer that the gateway has not signed for the request an <see cref="UnprovenException"/>. It needs a
        /// gateway with the option sign_responses. The default is false.
        /// </summary>
        public bool VerifyAnswers { get; set; }

        /// <summary>Returns the time.</summary>
        public Func<DateTimeOffset> Now { get; set; } = () => DateTimeOffset.UtcNow;

        /// <summary>Is called with a text when the clock of this machine is wrong. The default is Trace.TraceWarning.</summary>
        public Action<string> Warn { get; set; } = text => Trace.TraceWarning(text);

        internal Uri Base { get; }

        internal Signer Signer { get; }

        /// <summary>Returns whether the Date of an answer from the URL may set the clock: over TLS, and from this machine.</summary>
        public static bool TrustsDate(Uri url)
        {
            IPAddress address;
            return url.Scheme == "https" || url.Host == "localhost"
                || IPAddress.TryParse(url.Host.Trim('[', ']'), out address) && IPAddress.IsLoopback(address);
        }

        /// <summary>Whether the URL is of the gateway, so that it may see a signature.</summary>
        internal bool Serves(Uri url)
            => url.Scheme == Base.Scheme && url.Port == Base.Port && string.Equals(url.Host, Base.Host, StringComparison.OrdinalIgnoreCase);

        internal DateTimeOffset Corrected()
        {
            lock (mutex)
            {
                return Now() + offset;
            }
        }

        internal static TimeSpan? RetryAfter(Answer answer)
        {
            var value = answer.Header("Retry-After");
            return Regex.IsMatch(value, @"\A[0-9]{1,9}\z")
                ? TimeSpan.FromSeconds(int.Parse(value, CultureInfo.InvariantCulture))
                : (TimeSpan?)null;
        }

        /// <summary>Takes over the gateway's clock if the answer says that ours is wrong.</summary>
        internal bool CorrectClock(Answer answer)
        {
            DateTimeOffset date;
            if (ApiException.Text(Json.ErrorFields(answer.Body), "message", "") != "Request timestamp is outside the allowed window"
                || !TrustsDate(Base)
                || !DateTimeOffset.TryParseExact(answer.Header("Date"), "r", CultureInfo.InvariantCulture, DateTimeStyles.AssumeUniversal, out date))
            {
                return false;
            }
            var found = date - Now();
            if (found.Duration() > Day)
            {
                return false;
            }
            lock (mutex)
            {
                offset = found;
            }
            Warn("the clock of this machine differs from the gateway's by " + Math.Round(found.TotalSeconds) + " s; set it by NTP");
            return true;
        }
    }
}
