using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;

namespace CardGateway
{
    /// <summary>
    /// One request between its attempts, and what an answer to it means. It sends nothing. A call that may change something is
    /// signed once, and each attempt sends the same bytes: the gateway accepts them once. It is signed anew only after an answer
    /// that says for certain that it was not executed.
    /// </summary>
    internal sealed class Exchange
    {
        private const string Replay = "Replay detected (duplicate nonce)";
        private const string Window = "Request timestamp is outside the allowed window";
        private static readonly TimeSpan RepeatWithin = TimeSpan.FromSeconds(270); // of the signature: the gateway's window is five minutes
        private static readonly Random Jitter = new Random();

        private readonly Policy policy;
        private readonly string method;
        private readonly bool whole;
        private readonly Stopwatch age = new Stopwatch(); // of the signature
        private Call chosen;
        private Call call;
        private IDictionary<string, string> headers;
        private bool anew = true; // the next attempt is signed anew
        private bool corrected; // the clock was set for this request
        private bool perhaps; // an attempt was perhaps accepted

        /// <param name="policy">That of the key.</param>
        /// <param name="method">In upper case.</param>
        /// <param name="chosen">By the caller; else null.</param>
        /// <param name="whole">Whether answers are read whole: a GET whose answer ends early is repeated.</param>
        internal Exchange(Policy policy, string method, Call chosen, bool whole)
        {
            this.policy = policy;
            this.method = method;
            this.chosen = chosen;
            this.whole = whole;
        }

        /// <summary>How many attempts were made.</summary>
        internal int Attempts { get; private set; }

        /// <summary>Whether the server may have received the request.</summary>
        internal bool Sent { get; private set; }

        private bool Safe => method == "GET" || method == "HEAD";

        /// <summary>Returns the headers of the next attempt.</summary>
        internal IDictionary<string, string> Sign(string target, byte[] body)
        {
            Attempts++;
            if (anew || Safe)
            {
                call = chosen ?? policy.NewCall();
                var timestamp = call.Timestamp.ToUnixTimeSeconds().ToString(CultureInfo.InvariantCulture);
                headers = policy.Signer.Headers(method, target, body, timestamp, call.Nonce);
                age.Restart();
                chosen = null;
                anew = false;
            }
            return headers;
        }

        /// <summary>
        /// Whether the body must be read before the answer is handed over. That of a stream of events, and of an answer that is
        /// not signed although it must be, may never end.
        /// </summary>
        internal bool Reads(Answer head)
        {
            if (head.Status >= 400)
            {
                return true;
            }
            return policy.VerifyAnswers
                ? !Signer.Unsigned(head)
                : (whole || !Safe) && !head.Header("Content-Type").StartsWith("text/event-stream", StringComparison.OrdinalIgnoreCase);
        }

        /// <summary>Returns how long to wait before another attempt, or null if the answer is final.</summary>
        /// <exception cref="CardException">One of TakenException, UnknownException and, of a GET or HEAD, UnprovenException.</exception>
        internal TimeSpan? AfterAnswer(Answer answer)
        {
            var refused = new ApiException(answer);
            var unproven = Unproven(answer, refused);
            if (Safe)
            {
                return AfterSafe(answer, refused, unproven);
            }
            Sent = true;
            if (unproven != null) // whoever has written it, it says nothing
            {
                perhaps = true;
                return AgainOrUnknown(TimeSpan.Zero, unproven);
            }
            var asked = refused.RetryAfter ?? TimeSpan.Zero;
            if (refused.NotExecuted)
            {
                var wait = Again(asked);
                if (wait != null)
                {
                    anew = true;
                    Sent = perhaps = false;
                }
                return wait;
            }
            if (refused.Accepted == true)
            {
                return null;
            }
            if (refused.Is(Replay))
            {
                throw new TakenException(call, refused.RequestId, perhaps);
            }
            if (refused.Is(Window) && Attempts == 1 && !corrected && policy.CorrectClock(answer))
            {
                anew = corrected = true;
                Sent = false;
                Attempts = 0; // it was refused before anything was done
                return TimeSpan.Zero;
            }
            var between = (refused.Status == 502 || refused.Status == 504) && !policy.VerifyAnswers && !refused.OfGateway;
            if (refused.Status == 429 || refused.Status == 503 || between)
            {
                perhaps |= refused.Accepted == null;
                return AgainOrUnknown(asked, refused); // the same bytes may still be accepted, from whoever has them
            }
            if (refused.OfGateway && perhaps)
            {
                throw new UnknownException(call, Attempts, refused);
            }
            return null;
        }

        private TimeSpan? AfterSafe(Answer answer, ApiException refused, UnprovenException unproven)
        {
            if (refused.Is(Window) && !corrected && unproven == null && policy.CorrectClock(answer))
            {
                corrected = true;
                Attempts--; // it was refused before anything was done
                return TimeSpan.Zero;
            }
            // On a connection that it uses again and that is cut, the library repeats a GET by itself, with the old nonce.
            var may = refused.Is(Replay) || refused.Status == 429
                || refused.Status == 503 && (refused.RetryAfter != null || answer.Header("X-Gateway-Forwarded") == "no");
            var wait = may ? Again(refused.RetryAfter ?? TimeSpan.Zero) : null;
            if (wait == null && unproven != null)
            {
                throw unproven;
            }
            return wait;
        }

        /// <summary>
        /// Returns why the answer is not believed, or null. Of a refusal because of our clock, the time cannot be compared with
        /// it; the nonce shows that the answer is new.
        /// </summary>
        private UnprovenException Unproven(Answer answer, ApiException refused)
        {
            try
            {
                if (policy.VerifyAnswers)
                {
                    policy.Signer.VerifyAnswer(call.Nonce, answer, (refused.Is(Window) ? Signer.AnsweredAt(answer) : null) ?? policy.Corrected());
                }
                return null;
            }
            catch (UnprovenException e)
            {
                return e;
            }
        }

        /// <summary>The same as AfterAnswer for a connection that failed; maybe is whether the server may have received the request.</summary>
        internal TimeSpan? AfterFailure(bool maybe)
        {
            Sent |= maybe;
            perhaps |= maybe;
            return Again(TimeSpan.Zero);
        }

        /// <summary>Throws that the outcome of a call is not known, if it was sent and no other attempt is made because of the error.</summary>
        internal void Lost(Exception e)
        {
            if (Sent && !Safe)
            {
                throw new UnknownException(call, Attempts, e);
            }
        }

        private TimeSpan? AgainOrUnknown(TimeSpan asked, CardException e)
        {
            var wait = Again(asked);
            if (wait == null)
            {
                throw new UnknownException(call, Attempts, e);
            }
            return wait;
        }

        private TimeSpan? Again(TimeSpan asked)
        {
            TimeSpan wait;
            lock (Jitter)
            {
                // So that many clients do not come back together.
                wait = asked + TimeSpan.FromSeconds(Jitter.NextDouble() * Math.Min(8, 0.25 * Math.Pow(2, Attempts)));
            }
            var late = !Safe && age.Elapsed + wait > RepeatWithin;
            return Attempts >= policy.Attempts || asked > policy.MaxWait || late ? (TimeSpan?)null : wait;
        }
    }
}
