using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Net;
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
    /// The gateway had accepted the call before: an earlier attempt has arrived, and its answer was lost. The issuer has executed
    /// it at most once, perhaps not: read what it should have made. Do not send it as a new call.
    /// </summary>
    public sealed class TakenException : CardException
    {
        internal TakenException(Call call, string requestId, bool perhaps)
            : base("the call " + call.Nonce + " was taken before, and its answer is lost; read what it should have made (request id "
                + requestId + ")", null)
        {
            Call = call;
            RequestId = requestId;
            Perhaps = perhaps;
        }

        /// <summary>The nonce and the timestamp.</summary>
        public Call Call { get; }

        /// <summary>The id of the refusal, by which the operator finds it.</summary>
        public string RequestId { get; }

        /// <summary>Whether it was perhaps taken by an attempt of the same request.</summary>
        internal bool Perhaps { get; }
    }

    /// <summary>
    /// It is not known whether the call was executed, or will be before Call.Until. CardClient.CloseCallAsync settles it. The
    /// error of the last attempt is the inner exception.
    /// </summary>
    public sealed class UnknownException : CardException
    {
        internal UnknownException(Call call, int attempts, Exception cause)
            : base("it is not known whether the call " + call.Nonce + " was executed, and it may be until "
                + call.Until.ToString("yyyy-MM-ddTHH:mm:ssZ", CultureInfo.InvariantCulture)
                + "; close it, or read what it should have made: after " + attempts + " attempts: " + cause.GetBaseException().Message, cause)
        {
            Call = call;
            Attempts = attempts;
        }

        /// <summary>The nonce, the timestamp, and until when it may be executed.</summary>
        public Call Call { get; }

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
        private readonly bool? forwarded; // whether the issuer may have seen the request; null: the gateway does not say

        internal ApiException(Answer answer)
            : this(answer, answer.Status < 400 ? new Dictionary<string, object>() : Json.Object(answer.Body))
        {
        }

        private ApiException(Answer answer, IDictionary<string, object> document)
            : base(answer.Status + " " + Text(Fields(document), "code") + ": " + TextOf(answer.Status, Fields(document))
                + " (request id " + answer.Header("X-Request-Id") + ")", null)
        {
            var fields = Fields(document);
            Answer = answer;
            Code = Text(fields, "code");
            Reason = TextOf(answer.Status, fields);
            if (fields != document)
            {
                Accepted = Value(fields, "accepted") as bool?;
                forwarded = Value(fields, "forwarded") as bool?;
            }
            var faults = Value(fields, "details") as List<object> ?? Value(fields, "errors") as List<object> ?? new List<object>();
            Details = faults.OfType<IDictionary<string, object>>().ToList();
        }

        /// <summary>Returns where code and message are: the gateway has them in error, some issuers and RFC 9457 at the top level.</summary>
        private static IDictionary<string, object> Fields(IDictionary<string, object> document)
            => Value(document, "error") as IDictionary<string, object> ?? document;

        private static object Value(IDictionary<string, object> fields, string name)
        {
            object value;
            return fields.TryGetValue(name, out value) ? value : null;
        }

        private static string Text(IDictionary<string, object> fields, string name) => Value(fields, name) as string ?? "";

        private static string TextOf(int status, IDictionary<string, object> fields)
        {
            var problem = string.Join(": ", new[] { Text(fields, "title"), Text(fields, "detail") }.Where(text => text != ""));
            using (var plain = new HttpResponseMessage((HttpStatusCode)status))
            {
                return new[] { Text(fields, "message"), problem, plain.ReasonPhrase, "refused" }.First(text => !string.IsNullOrEmpty(text));
            }
        }

        /// <summary>Whether the gateway says that it has accepted the request; null: it does not say.</summary>
        internal bool? Accepted { get; }

        /// <summary>Whether the answer has the form of a refusal by the gateway.</summary>
        internal bool OfGateway
            => Accepted != null || Status == 401 && Code == "UNAUTHORIZED" || Code == "UPSTREAM_ERROR" || Code == "UPSTREAM_TIMEOUT";

        internal bool Is(string message) => Status == 401 && Reason == message;

        /// <summary>Whether the gateway says that it has accepted the request, and no issuer has seen it: it never is executed.</summary>
        public bool NotExecuted => Accepted == true && forwarded == false;

        /// <summary>The whole answer.</summary>
        public Answer Answer { get; }

        /// <summary>The status of the answer.</summary>
        public int Status => Answer.Status;

        /// <summary>Such as VALIDATION_FAILED; empty if the body names none.</summary>
        public string Code { get; }

        /// <summary>The message of the body, else the text of the status.</summary>
        public string Reason { get; }

        /// <summary>The faults that the body lists, each with field, finding and message where it has them.</summary>
        public IReadOnlyList<IDictionary<string, object>> Details { get; }

        /// <summary>By which the operator finds the request; empty if there is none.</summary>
        public string RequestId => Answer.Header("X-Request-Id");

        /// <summary>How long to wait, if the answer says so.</summary>
        public TimeSpan? RetryAfter => Policy.RetryAfter(Answer);
    }
}
