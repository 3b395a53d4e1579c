using System;
using System.Collections.Generic;
using System.Net.Http;

namespace CardGateway
{
    /// <summary>Any failure of a request.</summary>
    public abstract class CardException : HttpRequestException
    {
        internal CardException(string message, Exception cause) : base(message, cause)
        {
        }
    }

    /// <summary>The request cannot be signed; nothing was sent. The message says what to do.</summary>
    public sealed class UnsignableException : CardException
    {
        internal UnsignableException(string message) : base(message, null)
        {
        }
    }

    /// <summary>The answer leads elsewhere, and was not followed: a signature is for one target of one host.</summary>
    public sealed class RedirectException : CardException
    {
        internal RedirectException(int status, string location)
            : base("the server redirects to \"" + location + "\" (" + status + "), which is not followed; correct the base URL", null)
        {
            Status = status;
            Location = location;
        }

        /// <summary>The status of the answer.</summary>
        public int Status { get; }

        /// <summary>Where the answer leads.</summary>
        public string Location { get; }
    }

    /// <summary>There was no whole answer. The error of the connection is the inner exception.</summary>
    public sealed class ConnectionException : CardException
    {
        internal ConnectionException(bool sent, int attempts, Exception cause)
            : base("no answer after " + attempts + " attempts, " + (sent ? "the server may have received it" : "nothing was sent")
                + ": " + cause.GetBaseException().Message, cause)
        {
            Sent = sent;
            Attempts = attempts;
        }

        /// <summary>Whether the server may have received the request.</summary>
        public bool Sent { get; }

        /// <summary>How many attempts were made.</summary>
        public int Attempts { get; }
    }

    /// <summary>
    /// The gateway has not signed the answer for this request, while <see cref="Policy.VerifyAnswers"/> is set. The request
    /// may have been executed.
    /// </summary>
    public sealed class UnprovenException : CardException
    {
        internal UnprovenException(Answer answer, bool unsigned, string reason)
            : base("the answer " + answer.Status + " is not proven to be the gateway's (request id " + answer.Header("X-Request-Id")
                + "): " + reason, null)
        {
            Status = answer.Status;
            RequestId = answer.Header("X-Request-Id");
            Unsigned = unsigned;
        }

        /// <summary>The status, as it was received.</summary>
        public int Status { get; }

        /// <summary>The request id, as it was received.</summary>
        public string RequestId { get; }

        /// <summary>Whether the answer has no signature at all, as refusals with 400 and 401.</summary>
        public bool Unsigned { get; }
    }

    /// <summary>An answer with a status of 400 or more, from the gateway or the issuer.</summary>
    public sealed class ApiException : CardException
    {
        internal ApiException(Answer answer) : this(answer, Json.ErrorFields(answer.Body))
        {
        }

        private ApiException(Answer answer, IDictionary<string, object> fields)
            : base(answer.Status + " " + Text(fields, "code", "") + ": " + Text(fields, "message", "the request was refused")
                + " (request id " + answer.Header("X-Request-Id") + ")", null)
        {
            Answer = answer;
            Code = Text(fields, "code", "");
            Reason = Text(fields, "message", "the request was refused");
            var details = new List<IDictionary<string, object>>();
            object list;
            if (fields.TryGetValue("details", out list) && list is List<object>)
            {
                foreach (var detail in (List<object>)list)
                {
                    if (detail is IDictionary<string, object>)
                    {
                        details.Add((IDictionary<string, object>)detail);
                    }
                }
            }
            Details = details;
        }

        internal static string Text(IDictionary<string, object> fields, string name, string otherwise)
        {
            object value;
            fields.TryGetValue(name, out value);
            return string.IsNullOrEmpty(value as string) ? otherwise : (string)value;
        }

        /// <summary>The whole answer.</summary>
        public Answer Answer { get; }

        /// <summary>The status of the answer.</summary>
        public int Status => Answer.Status;

        /// <summary>Such as VALIDATION_FAILED; empty if the body names none.</summary>
        public string Code { get; }

        /// <summary>The message of the body.</summary>
        public string Reason { get; }

        /// <summary>The faults that the body lists, each with field, finding and message where it has them.</summary>
        public IReadOnlyList<IDictionary<string, object>> Details { get; }

        /// <summary>By which the operator finds the request; empty if there is none.</summary>
        public string RequestId => Answer.Header("X-Request-Id");

        /// <summary>How long to wait, if the answer says so.</summary>
        public TimeSpan? RetryAfter => Policy.RetryAfter(Answer);
    }
}
