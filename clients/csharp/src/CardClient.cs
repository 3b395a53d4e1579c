using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Net.Http;
using System.Net.Http.Headers;
using System.Threading;
using System.Threading.Tasks;

namespace CardGateway
{
    /// <summary>Calls the card API of one gateway with one key, from any number of threads.</summary>
    public sealed class CardClient : IDisposable
    {
        /// <summary>The version of this package.</summary>
        public const string Version = "0.2.0";

        private readonly Policy policy;
        private readonly CardHandler handler;

        /// <summary>Takes the scheme and host of the gateway, the key id and the secret.</summary>
        public CardClient(string baseUrl, string keyId, string secret) : this(new Policy(baseUrl, keyId, secret))
        {
        }

        /// <summary>Takes a policy with other bounds than the default.</summary>
        public CardClient(Policy policy)
        {
            this.policy = policy;
            handler = new CardHandler(policy);
        }

        /// <summary>The longest that a call takes, all attempts included. The default is 2 minutes.</summary>
        public TimeSpan Timeout { get; set; } = TimeSpan.FromMinutes(2);

        /// <summary>Reads the path with the parameters of the query; those that are null are left out.</summary>
        public Task<Answer> GetAsync(string path, IEnumerable<KeyValuePair<string, string>> query = null, CancellationToken cancel = default(CancellationToken))
            => RequestAsync("GET", WithQuery(path, query), cancel: cancel);

        /// <summary>Sends a value as JSON; null for no body.</summary>
        public Task<Answer> PostAsync(string path, object json = null, CancellationToken cancel = default(CancellationToken))
            => RequestAsync("POST", path, json == null ? null : Body.Json(json), cancel: cancel);

        /// <summary>Sends a value as JSON.</summary>
        public Task<Answer> PatchAsync(string path, object json, CancellationToken cancel = default(CancellationToken))
            => RequestAsync("PATCH", path, Body.Json(json), cancel: cancel);

        /// <summary>Returns a nonce and a timestamp for a request, to be stored before it is sent.</summary>
        public Call NewCall() => policy.NewCall();

        /// <summary>
        /// Makes sure that a call whose outcome is not known is never executed. Returns if it was not, and never will be.
        /// </summary>
        /// <exception cref="TakenException">It was taken before; read what it made.</exception>
        /// <exception cref="UnknownException">
        /// That could not be found out, or the time of the call has passed. Any other exception decides nothing.
        /// </exception>
        public async Task CloseCallAsync(Call call, CancellationToken cancel = default(CancellationToken))
        {
            var passed = new UnknownException(call, 0, new InvalidOperationException(
                "its time has passed, so that nothing can execute it any more, and the gateway has forgotten its nonce"));
            if (policy.Corrected() > call.Until)
            {
                throw passed;
            }
            try
            {
                // With the timestamp of the call: a gateway that has lost its nonce refuses that.
                var closed = await RequestAsync("POST", "/gateway/v1/nonce/close", call: call, cancel: cancel).ConfigureAwait(false);
                if (!call.Nonce.Equals(closed.Json("data", "nonce"))) // the timestamp was refused, and another nonce signed
                {
                    throw passed;
                }
            }
            catch (TakenException e) when (e.Perhaps) // perhaps by this close, whose answer was lost
            {
                throw new UnknownException(call, 0, e);
            }
        }

        /// <summary>Sends a request.</summary>
        /// <param name="method">Such as DELETE.</param>
        /// <param name="path">The escaped path and query.</param>
        /// <param name="body">Null for none.</param>
        /// <param name="headers">Further headers; null for none.</param>
        /// <param name="call">What NewCall has returned, if it was stored; else null.</param>
        /// <param name="cancel">
        /// Ends the request with an OperationCanceledException; with an UnknownException if it changes something and was perhaps sent.
        /// </param>
        /// <exception cref="CardException">
        /// One of UnsignableException, ConnectionException, UnprovenException, RedirectException, ApiException, TakenException and
        /// UnknownException.
        /// </exception>
        public async Task<Answer> RequestAsync(
            string method, string path, Body body = null, IEnumerable<KeyValuePair<string, string>> headers = null,
            Call call = null, CancellationToken cancel = default(CancellationToken))
        {
            var exchange = new Exchange(policy, method.ToUpperInvariant(), call, true);
            using (var limit = CancellationTokenSource.CreateLinkedTokenSource(cancel))
            using (var request = Build(method.ToUpperInvariant(), policy.Base.AbsolutePath.TrimEnd('/') + path, body, headers))
            {
                limit.CancelAfter(Timeout);
                try
                {
                    using (var response = await handler.Send(request, exchange, limit.Token).ConfigureAwait(false))
                    {
                        return Judge(Answer.Of(response, await CardHandler.Read(response, limit.Token).ConfigureAwait(false)));
                    }
                }
                catch (OperationCanceledException e) when (cancel.IsCancellationRequested)
                {
                    exchange.Lost(e);
                    throw;
                }
                catch (Exception e) when (e is HttpRequestException && !(e is CardException) || e is IOException || e is OperationCanceledException)
                {
                    var cause = e is OperationCanceledException ? new TimeoutException("the call took longer than its Timeout") : e;
                    exchange.Lost(cause);
                    throw new ConnectionException(exchange.Sent, exchange.Attempts, cause);
                }
            }
        }

        /// <summary>Closes the connections.</summary>
        public void Dispose() => handler.Dispose();

        private HttpRequestMessage Build(string method, string target, Body body, IEnumerable<KeyValuePair<string, string>> headers)
        {
            Target.Check(target);
            HttpRequestMessage request;
            try
            {
                request = new HttpRequestMessage(new HttpMethod(method), new Uri(policy.Base.GetLeftPart(UriPartial.Authority) + target));
            }
            catch (FormatException e) // of the method or the URL
            {
                throw new UnsignableException("System.Net.Http refuses the request: " + e.Message);
            }
            request.Headers.TryAddWithoutValidation("User-Agent", "card-gateway-csharp/" + Version);
            if (body != null)
            {
                request.Content = new ByteArrayContent(body.Bytes);
                request.Content.Headers.ContentType = MediaTypeHeaderValue.Parse(body.ContentType);
            }
            foreach (var header in headers ?? Enumerable.Empty<KeyValuePair<string, string>>())
            {
                if (!request.Headers.TryAddWithoutValidation(header.Key, header.Value)
                    && (request.Content == null || !request.Content.Headers.TryAddWithoutValidation(header.Key, header.Value)))
                {
                    throw new UnsignableException("System.Net.Http refuses the header " + header.Key);
                }
            }
            return request;
        }

        private static Answer Judge(Answer answer)
        {
            if (answer.Status >= 400)
            {
                throw new ApiException(answer);
            }
            if (answer.Status >= 300)
            {
                throw new RedirectException(answer.Status, answer.Header("Location"));
            }
            return answer;
        }

        /// <summary>Returns the path with the parameters that are not null, each escaped but for letters, digits and -._~</summary>
        public static string WithQuery(string path, IEnumerable<KeyValuePair<string, string>> query)
        {
            var pairs = (query ?? Enumerable.Empty<KeyValuePair<string, string>>()).Where(pair => pair.Value != null)
                .Select(pair => Escape(pair.Key) + "=" + Escape(pair.Value));
            var joined = string.Join("&", pairs);
            return joined == "" ? path : path + (path.Contains("?") ? "&" : "?") + joined;
        }

        private static string Escape(string text)
        {
            // .NET Framework leaves these as they are.
            var escaped = Uri.EscapeDataString(text);
            return string.Concat(escaped.Select(c => "!'()*".IndexOf(c) < 0 ? c.ToString() : "%" + ((int)c).ToString("X2", CultureInfo.InvariantCulture)));
        }
    }
}
