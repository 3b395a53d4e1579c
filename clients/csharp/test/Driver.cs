using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Net.Http;
using System.Net.Http.Headers;
using System.Text;
using System.Threading.Tasks;
using CardGateway;

/// <summary>
/// Runs the cases of tests/clients/matrix through this client: one JSON object a line on standard input, one answer a line
/// on standard output.
/// </summary>
public static class Driver
{
    private sealed class Call
    {
        private readonly IDictionary<string, object> fields;

        internal Call(IDictionary<string, object> fields)
        {
            this.fields = fields;
        }

        internal object this[string name]
        {
            get
            {
                object value;
                return fields.TryGetValue(name, out value) ? value : null;
            }
        }

        internal string Text(string name) => this[name] as string ?? "";

        internal int Number(string name) => (int)((decimal?)this[name] ?? 0);

        internal byte[] Bytes => Convert.FromBase64String(Text("body"));

        internal bool HasBody => (bool)this["has_body"];

        internal IEnumerable<KeyValuePair<string, string>> Query => ((List<object>)this["query"] ?? new List<object>())
            .Cast<List<object>>().Select(pair => new KeyValuePair<string, string>((string)pair[0], (string)pair[1]));

        internal IEnumerable<KeyValuePair<string, string>> Headers => ((IDictionary<string, object>)this["headers"] ?? new Dictionary<string, object>())
            .Select(pair => new KeyValuePair<string, string>(pair.Key, (string)pair.Value));

        internal Policy Policy => new Policy(Text("base"), Text("key_id"), Text("secret"))
        {
            Now = () => DateTimeOffset.UtcNow.AddSeconds(Number("clock")),
            VerifyAnswers = (bool)this["verify_answers"],
            Attempts = Number("attempts") == 0 ? 3 : Number("attempts"),
        };

        internal CardGateway.Call Chosen => this["nonce"] == null
            ? null
            : new CardGateway.Call(Text("nonce"), DateTimeOffset.FromUnixTimeSeconds(long.Parse(Text("timestamp"))));
    }

    public static void Main()
    {
        var input = new StreamReader(Console.OpenStandardInput(), new UTF8Encoding(false));
        var output = new StreamWriter(Console.OpenStandardOutput(), new UTF8Encoding(false)) { AutoFlush = true };
        for (string line; (line = input.ReadLine()) != null;)
        {
            object answer;
            try
            {
                var call = new Answer(0, new Dictionary<string, IEnumerable<string>>(), Encoding.UTF8.GetBytes(line)).Json();
                answer = Run(new Call((IDictionary<string, object>)call)).GetAwaiter().GetResult();
            }
            catch (Exception e)
            {
                answer = new { error = Describe(e) };
            }
            output.WriteLine(JsonWriter.Write(answer));
        }
    }

    private static async Task<object> Run(Call c)
    {
        switch (c.Text("do"))
        {
            case "hello":
                return new { adapters = new { client = true, handler = false }, version = CardClient.Version };
            case "trusts":
                return new { trusted = Policy.TrustsDate(new Uri(c.Text("base"))) };
            case "sign":
                var headers = new Signer(c.Text("key_id"), c.Text("secret"))
                    .Headers(c.Text("method"), c.Text("target"), c.Bytes, c.Text("timestamp"), c.Text("nonce"));
                return new { signature = headers["X-Signature"], body_hash = headers["X-Body-Hash"] };
            case "verify":
                var answer = new Answer(c.Number("status"), ((IDictionary<string, object>)c["answer"])
                    .ToDictionary(h => h.Key, h => ((List<object>)h.Value).Cast<string>()), c.Bytes);
                new Signer(c.Text("key_id"), c.Text("secret")).VerifyAnswer(c.Text("nonce"), answer, DateTimeOffset.FromUnixTimeSeconds(c.Number("now")));
                return new { verified = true };
            case "close":
                using (var client = new CardClient(c.Policy))
                {
                    await client.CloseCallAsync(c.Chosen);
                    return new { closed = true };
                }
            case "parallel":
                using (var client = new CardClient(c.Policy))
                using (var http = new HttpClient(new CardHandler(c.Policy)))
                {
                    var all = Enumerable.Range(0, c.Number("count")).Select(_ => c.Text("adapter") == "client" ? Client(c, client) : Handler(c, http));
                    return new { statuses = (await Task.WhenAll(all)).Select(sent => sent["status"]) };
                }
            default:
                using (var client = new CardClient(c.Policy))
                using (var http = new HttpClient(new CardHandler(c.Policy)))
                {
                    return c.Text("adapter") == "client" ? await Client(c, client) : await Handler(c, http);
                }
        }
    }

    private static async Task<Dictionary<string, object>> Client(Call c, CardClient client)
    {
        var body = c.Text("kind") == "form" ? Body.Form(new Dictionary<string, string> { { "type", "passport" } }, "file", "Zoë.pdf", c.Bytes)
            : c.HasBody ? Body.Of("application/json", c.Bytes) : null;
        var answer = await client.RequestAsync(c.Text("method"), CardClient.WithQuery(c.Text("target"), c.Query), body, c.Headers, c.Chosen);
        return Result(answer.Status, answer.Body);
    }

    private static async Task<Dictionary<string, object>> Handler(Call c, HttpClient http)
    {
        HttpRequestMessage request;
        try
        {
            request = new HttpRequestMessage(new HttpMethod(c.Text("method")), new Uri(c.Text("base") + CardClient.WithQuery(c.Text("target"), c.Query)));
        }
        catch (FormatException e) // the library's own refusal
        {
            return Refused(e);
        }
        using (request)
        {
            if (c.Text("kind") == "form")
            {
                var form = new MultipartFormDataContent();
                form.Add(new StringContent("passport"), "type");
                form.Add(new ByteArrayContent(c.Bytes), "file", "Zoë.pdf");
                request.Content = form;
            }
            else if (c.HasBody)
            {
                request.Content = c.Text("kind") == "stream" ? (HttpContent)new StreamContent(new MemoryStream(c.Bytes)) : new ByteArrayContent(c.Bytes);
                request.Content.Headers.ContentType = new MediaTypeHeaderValue("application/json");
            }
            foreach (var header in c.Headers)
            {
                request.Headers.TryAddWithoutValidation(header.Key, header.Value);
            }
            if (c.Chosen != null)
            {
                request.Headers.Add("X-Nonce", c.Text("nonce"));
                request.Headers.Add("X-Timestamp", c.Text("timestamp"));
            }
            using (var response = await http.SendAsync(request))
            {
                return Result((int)response.StatusCode, await response.Content.ReadAsByteArrayAsync());
            }
        }
    }

    private static Dictionary<string, object> Result(int status, byte[] body)
        => new Dictionary<string, object> { { "status", status }, { "body", Convert.ToBase64String(body) } };

    private static Dictionary<string, object> Refused(Exception e)
        => new Dictionary<string, object> { { "error", new { type = "unsignable", message = e.Message } } };

    private static object Describe(Exception e)
    {
        if (e is UnsignableException)
        {
            return new { type = "unsignable", message = e.Message };
        }
        var api = e as ApiException;
        if (api != null)
        {
            return new
            {
                type = "api", status = api.Status, code = api.Code, message = api.Reason, details = api.Details, request_id = api.RequestId,
                retry_after = (api.RetryAfter ?? TimeSpan.Zero).TotalSeconds, not_executed = api.NotExecuted,
            };
        }
        if (e is TakenException)
        {
            return Undecided("taken", ((TakenException)e).Call, 0, e);
        }
        if (e is UnknownException)
        {
            return Undecided("unknown", ((UnknownException)e).Call, ((UnknownException)e).Attempts, e);
        }
        var unproven = e as UnprovenException;
        if (unproven != null)
        {
            return new { type = "unproven", status = unproven.Status, unsigned = unproven.Unsigned, message = e.Message };
        }
        if (e is RedirectException)
        {
            return new { type = "redirect", location = ((RedirectException)e).Location };
        }
        var connection = e as ConnectionException;
        if (connection != null)
        {
            return new { type = "connection", sent = connection.Sent, attempts = connection.Attempts };
        }
        return new { type = e is HttpRequestException ? "connection" : "other", message = e.ToString() };
    }

    private static object Undecided(string type, CardGateway.Call call, int attempts, Exception e) => new
    {
        type, nonce = call.Nonce, timestamp = call.Timestamp.ToUnixTimeSeconds(), until = call.Until.ToUnixTimeSeconds(), attempts,
        message = e.Message,
    };
}
