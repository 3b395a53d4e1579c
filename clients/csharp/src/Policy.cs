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

        /// <summary>The largest number of attempts; with 1, nothing is repeated. The default is 3.</summary>
        public int Attempts { get; set; } = 3;

        /// <summary>The longest wait before another attempt, 30 s by default. If the server asks for more, there is none.</summary>
        public TimeSpan MaxWait { get; set; } = TimeSpan.FromSeconds(30);

        /// <summary>
        /// Believes only answers that the gateway has signed for the request; the error for others is an
        /// <see cref="UnprovenException"/>. It needs a gateway with the option sign_responses. Without it somebody between can
        /// forge answers, and nothing is certain. The default is false.
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

        /// <summary>Returns a nonce and the time of the gateway's clock, as far as it is known, to be stored before a call is sent.</summary>
        public Call NewCall() => new Call(Signer.Nonce(), Corrected());

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

        /// <summary>Takes over the gateway's clock from an answer. Returns whether another attempt is worth while.</summary>
        internal bool CorrectClock(Answer answer)
        {
            var date = VerifyAnswers ? Signer.AnsweredAt(answer) : TrustsDate(Base) ? Date(answer) : null;
            if (date == null)
            {
                return false;
            }
            var found = date.Value - Now();
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

        private static DateTimeOffset? Date(Answer answer)
        {
            DateTimeOffset date;
            return DateTimeOffset.TryParseExact(answer.Header("Date"), "r", CultureInfo.InvariantCulture, DateTimeStyles.AssumeUniversal, out date)
                ? date
                : (DateTimeOffset?)null;
        }
    }
}
