using System;
using System.Collections.Generic;

namespace CardGateway
{
    /// <summary>One request between its attempts. It sends nothing.</summary>
    internal sealed class Exchange
    {
        private static readonly Random Jitter = new Random();
        private readonly Policy policy;
        private readonly string method;
        private bool corrected;
        private string nonce;

        internal Exchange(Policy policy, string method)
        {
            this.policy = policy;
            this.method = method;
        }

        /// <summary>How many attempts were made.</summary>
        internal int Attempts { get; private set; }

        private bool Safe => method == "GET" || method == "HEAD";

        /// <summary>Returns the headers of the next attempt.</summary>
        internal IDictionary<string, string> Sign(string target, byte[] body)
        {
            var headers = policy.Signer.Headers(method, target, body, policy.Corrected());
            nonce = headers["X-Nonce"];
            Attempts++;
            return headers;
        }

        /// <summary>Verifies the answer to the last attempt.</summary>
        internal void Verify(Answer answer) => policy.Signer.VerifyAnswer(nonce, answer, policy.Corrected());

        /// <summary>Returns how long to wait before another attempt, or null if the answer is final.</summary>
        internal TimeSpan? AfterAnswer(Answer answer)
        {
            if (answer.Status == 401 && !corrected && policy.CorrectClock(answer))
            {
                corrected = true;
                Attempts--; // it was refused before anything was done
                return TimeSpan.Zero;
            }
            if (answer.Status == 401 && Safe && Repeated(answer))
            {
                return Wait(TimeSpan.Zero);
            }
            var asked = Policy.RetryAfter(answer);
            var unforwarded = answer.Header("X-Gateway-Forwarded") == "no";
            var may = answer.Status == 429 || answer.Status == 503 && (unforwarded || Safe && asked != null);
            return may ? Wait(asked ?? TimeSpan.Zero) : null;
        }

        /// <summary>The same for a connection that failed; sent is whether the server may have received the request.</summary>
        internal TimeSpan? AfterFailure(bool sent) => Safe || !sent ? Wait(TimeSpan.Zero) : null;

        /// <summary>
        /// Whether the library has sent the request twice: on a connection that it uses again and that is cut, it repeats a
        /// request without a body by itself, with the old nonce.
        /// </summary>
        private static bool Repeated(Answer answer)
            => ApiException.Text(Json.ErrorFields(answer.Body), "message", "") == "Replay detected (duplicate nonce)";

        private TimeSpan? Wait(TimeSpan asked)
        {
            if (Attempts >= policy.Attempts || asked > policy.MaxWait)
            {
                return null;
            }
            lock (Jitter)
            {
                // So that many clients do not come back together.
                return asked + TimeSpan.FromSeconds(Jitter.NextDouble() * Math.Min(8, 0.25 * Math.Pow(2, Attempts)));
            }
        }
    }
}
