using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Net;
using System.Net.Http;
using System.Net.Sockets;
using System.Security.Authentication;
using System.Threading;
using System.Threading.Tasks;

namespace CardGateway
{
    /// <summary>
    /// Signs what an HttpClient sends, and repeats it as <see cref="CardClient"/> does. Answers of every status are returned. A
    /// request that cannot be signed throws <see cref="UnsignableException"/> before anything is sent, a failed connection
    /// <see cref="ConnectionException"/>, a call whose outcome is not an answer <see cref="TakenException"/> or
    /// <see cref="UnknownException"/>, also when it is cancelled, and with <see cref="Policy.VerifyAnswers"/> an answer that is not
    /// proven <see cref="UnprovenException"/>. All of them are an HttpRequestException. A request with the headers X-Nonce and
    /// X-Timestamp is signed with these.
    /// </summary>
    public sealed class CardHandler : DelegatingHandler
    {
        private static readonly byte[] Nothing = new byte[0];
        private readonly Policy policy;

        /// <summary>Sends through a handler of its own. It follows no redirect.</summary>
        public CardHandler(Policy policy) : this(policy, new HttpClientHandler { AllowAutoRedirect = false, UseCookies = false })
        {
        }

        /// <summary>Sends through a handler with AllowAutoRedirect = false. A null handler is for IHttpClientFactory, which sets one.</summary>
        public CardHandler(Policy policy, HttpMessageHandler inner)
        {
            this.policy = policy;
            if (inner != null)
            {
                InnerHandler = inner;
            }
        }

        /// <inheritdoc />
        protected override async Task<HttpResponseMessage> SendAsync(HttpRequestMessage request, CancellationToken cancellationToken)
        {
            var exchange = new Exchange(policy, request.Method.Method.ToUpperInvariant(), Chosen(request), false);
            try
            {
                return await Send(request, exchange, cancellationToken).ConfigureAwait(false);
            }
            catch (OperationCanceledException e)
            {
                exchange.Lost(e);
                throw;
            }
        }

        internal async Task<HttpResponseMessage> Send(HttpRequestMessage request, Exchange exchange, CancellationToken cancel)
        {
            CheckInner();
            CheckUrl(request.RequestUri);
            var body = request.Content == null ? Nothing : await request.Content.ReadAsByteArrayAsync().ConfigureAwait(false);
            cancel.ThrowIfCancellationRequested();
            while (true)
            {
                TimeSpan? wait;
                HttpResponseMessage response = null;
                try
                {
                    var signed = Copy(request, body, exchange.Sign(request.RequestUri.PathAndQuery, body));
                    response = await base.SendAsync(signed, cancel).ConfigureAwait(false);
                    response.RequestMessage = request; // whose headers may be logged
                    wait = exchange.AfterAnswer(await Received(response, exchange, cancel).ConfigureAwait(false));
                    if (wait == null)
                    {
                        return response;
                    }
                }
                catch (Exception e) when (e is HttpRequestException && !(e is CardException) || e is IOException)
                {
                    wait = exchange.AfterFailure(response != null || MaybeSent(e));
                    if (wait == null)
                    {
                        response?.Dispose();
                        exchange.Lost(e);
                        throw new ConnectionException(exchange.Sent, exchange.Attempts, e);
                    }
                }
                catch (Exception e)
                {
                    response?.Dispose();
                    if (e is OperationCanceledException)
                    {
                        exchange.AfterFailure(true);
                    }
                    throw;
                }
                response?.Dispose();
                await Task.Delay(wait.Value, cancel).ConfigureAwait(false);
            }
        }

        private static async Task<Answer> Received(HttpResponseMessage response, Exchange exchange, CancellationToken cancel)
        {
            var head = Answer.Of(response, Nothing);
            return exchange.Reads(head) ? Answer.Of(response, await Read(response, cancel).ConfigureAwait(false)) : head;
        }

        private static Call Chosen(HttpRequestMessage request)
        {
            IEnumerable<string> nonce, timestamp;
            long seconds;
            return request.Headers.TryGetValues("X-Nonce", out nonce) && request.Headers.TryGetValues("X-Timestamp", out timestamp)
                && long.TryParse(timestamp.First(), NumberStyles.None, CultureInfo.InvariantCulture, out seconds) && seconds < 1L << 37
                ? new Call(nonce.First(), DateTimeOffset.FromUnixTimeSeconds(seconds))
                : null;
        }

        /// <summary>Reads the whole body, which stays readable.</summary>
        internal static async Task<byte[]> Read(HttpResponseMessage response, CancellationToken cancel)
        {
            if (response.Content == null)
            {
                return Nothing;
            }
            using (cancel.Register(response.Dispose))
            {
                try
                {
                    return await response.Content.ReadAsByteArrayAsync().ConfigureAwait(false);
                }
                catch (Exception)
                {
                    cancel.ThrowIfCancellationRequested();
                    throw;
                }
            }
        }

        private void CheckUrl(Uri url)
        {
            if (url == null || !url.IsAbsoluteUri || !policy.Serves(url))
            {
                throw new UnsignableException("the URL \"" + url + "\" is not below " + policy.Base);
            }
            var written = url.OriginalString;
            if (url.Fragment != "" || written.IndexOf('#') >= 0)
            {
                throw new UnsignableException("a fragment (#) is not sent; leave it out, or write %23");
            }
            if (written.EndsWith("?", StringComparison.Ordinal) || url.PathAndQuery.EndsWith("?", StringComparison.Ordinal))
            {
                throw new UnsignableException("some versions of .NET drop a ? without a query; leave it out");
            }
        }

        /// <summary>A redirect that the library follows would take the five headers to another target, and to other hosts.</summary>
        private void CheckInner()
        {
            var inner = InnerHandler;
            while (inner is DelegatingHandler)
            {
                inner = ((DelegatingHandler)inner).InnerHandler;
            }
            // HttpClientHandler and SocketsHttpHandler; the latter is not in .NET Standard.
            if (true.Equals(inner?.GetType().GetProperty("AllowAutoRedirect")?.GetValue(inner, null)))
            {
                throw new UnsignableException("the inner handler follows redirects, with the headers of this request; set AllowAutoRedirect = false");
            }
            var coding = inner?.GetType().GetProperty("AutomaticDecompression")?.GetValue(inner, null);
            if (policy.VerifyAnswers && coding is DecompressionMethods && (DecompressionMethods)coding != DecompressionMethods.None)
            {
                throw new UnsignableException("the inner handler decompresses answers, of which the signature is then wrong; set "
                    + "AutomaticDecompression = DecompressionMethods.None");
            }
        }

        private HttpRequestMessage Copy(HttpRequestMessage request, byte[] body, IDictionary<string, string> signed)
        {
            var method = request.Method.Method.ToUpperInvariant();
            var copy = new HttpRequestMessage(new HttpMethod(method), request.RequestUri) { Version = request.Version };
            foreach (var header in request.Headers.Where(h => !signed.ContainsKey(h.Key)))
            {
                copy.Headers.TryAddWithoutValidation(header.Key, header.Value);
            }
            foreach (var header in signed)
            {
                copy.Headers.TryAddWithoutValidation(header.Key, header.Value);
            }
            foreach (var property in request.Properties) // .NET 5 and newer name them Options
            {
                copy.Properties.Add(property);
            }
            copy.Headers.ExpectContinue = false;
            if (policy.VerifyAnswers)
            {
                copy.Headers.Remove("Accept-Encoding");
                copy.Headers.TryAddWithoutValidation("Accept-Encoding", "identity");
            }
            // With a body, if only of zero bytes, the library does not repeat the request by itself, with the old nonce.
            if (request.Content != null || method != "GET" && method != "HEAD")
            {
                copy.Content = new ByteArrayContent(body);
            }
            foreach (var header in request.Content?.Headers ?? Enumerable.Empty<KeyValuePair<string, IEnumerable<string>>>())
            {
                if (!header.Key.Equals("Content-Length", StringComparison.OrdinalIgnoreCase))
                {
                    copy.Content.Headers.TryAddWithoutValidation(header.Key, header.Value);
                }
            }
            return copy;
        }

        /// <summary>Whether the server may have received the request of this error.</summary>
        private static bool MaybeSent(Exception e)
        {
            var web = e.InnerException as WebException; // .NET Framework
            var never = web != null && (web.Status == WebExceptionStatus.NameResolutionFailure || web.Status == WebExceptionStatus.ConnectFailure
                || web.Status == WebExceptionStatus.ProxyNameResolutionFailure || web.Status == WebExceptionStatus.TrustFailure
                || web.Status == WebExceptionStatus.SecureChannelFailure);
            return !never && !(e.InnerException is SocketException) && !(e.InnerException is AuthenticationException);
        }
    }
}
