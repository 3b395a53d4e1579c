<?php

declare(strict_types=1);

namespace CardGateway;

/**
 * Calls the card API of one gateway with one key, by the extension curl.
 *
 * Each attempt has a connection of its own: on one that it uses again, libcurl repeats a request by itself.
 */
final class Client
{
    public const VERSION = '0.2.0';

    /** What curl answers before it has sent anything: no address, no connection, no TLS, no trust. */
    public const NOT_SENT = [
        CURLE_COULDNT_RESOLVE_PROXY, CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_CONNECT, CURLE_SSL_CONNECT_ERROR, CURLE_SSL_CACERT,
        CURLE_SSL_CACERT_BADFILE,
    ];

    /** @param int $timeout of one attempt, in seconds */
    public function __construct(private Policy $policy, private int $timeout = 60)
    {
    }

    /**
     * Reads the path with the parameters of the query.
     *
     * @param array<string, null|scalar> $query
     */
    public function get(string $path, array $query = []): Answer
    {
        return $this->request('GET', self::withQuery($path, $query));
    }

    /** Sends a value as JSON; null for no body. An empty array is [], a new \stdClass {}. */
    public function post(string $path, mixed $json = null): Answer
    {
        return $this->request('POST', $path, $json === null ? null : Body::json($json));
    }

    /** Sends a value as JSON. */
    public function patch(string $path, mixed $json): Answer
    {
        return $this->request('PATCH', $path, Body::json($json));
    }

    /**
     * Sends a request.
     *
     * @param string                $path    the escaped path and query
     * @param array<string, string> $headers
     * @param null|Call             $call    what newCall has returned, if it was stored
     *
     * @throws UnsignableException|ConnectionException|UnprovenException|RedirectException|ApiException|TakenException|UnknownException
     */
    public function request(string $method, string $path, ?Body $body = null, array $headers = [], ?Call $call = null): Answer
    {
        $method = strtoupper($method);
        $target = (parse_url($this->policy->baseUrl, PHP_URL_PATH) ?? '') . $path;
        $exchange = $this->policy->begin($method, $call);
        $headers += ['User-Agent' => 'card-gateway-php/' . self::VERSION];
        if ($body !== null) {
            $headers += ['Content-Type' => $body->contentType];
        }
        while (true) {
            $signed = $exchange->sign($target, $body->bytes ?? '');
            $others = array_diff_ukey($headers, $signed, 'strcasecmp');
            $answer = $this->attempt($method, $target, $body, $others + $signed);
            if (is_array($answer)) {
                [$code, $trouble] = $answer;
                $failure = new ConnectionException(!in_array($code, self::NOT_SENT, true), $exchange->attempts, $trouble);
                $wait = $exchange->afterFailure($failure->sent, $failure) ?? throw $failure;
            } else {
                $wait = $exchange->afterAnswer($answer);
            }
            if ($wait === null) {
                return self::judge($answer);
            }
            usleep((int) ($wait * 1e6));
        }
    }

    /** Returns a nonce and a timestamp for a request, to be stored before it is sent. */
    public function newCall(): Call
    {
        return $this->policy->newCall();
    }

    /**
     * Makes sure that a call whose outcome is not known is never executed. It returns if it was not, and never will be.
     *
     * @throws TakenException   it was taken before; read what it made
     * @throws UnknownException that cannot be found out any more
     * @throws CardException    every other one decides nothing
     */
    public function closeCall(Call $call): void
    {
        $passed = new UnknownException($call, 0, new CardException('its time has passed, so that nothing can execute it any more, and '
            . 'the gateway has forgotten its nonce'));
        if ($this->newCall()->timestamp > $call->until()) {
            throw $passed;
        }
        try {
            // With the timestamp of the call: a gateway that has lost its nonce refuses that.
            $closed = $this->request('POST', '/gateway/v1/nonce/close', call: $call)->json();
            if (($closed['data']['nonce'] ?? '') !== $call->nonce) { // the timestamp was refused, and another nonce signed
                throw $passed;
            }
        } catch (TakenException $taken) {
            throw $taken->perhapsByUs ? new UnknownException($call, 0, $taken) : $taken;
        }
    }

    /**
     * Makes one attempt.
     *
     * @param array<string, string> $headers
     *
     * @return Answer|array{int, string} the code and the text of curl's error
     */
    private function attempt(string $method, string $target, ?Body $body, array $headers): Answer|array
    {
        preg_match('~^https?://[^/]+~', $this->policy->baseUrl, $origin);
        $lines = ['Expect:'];
        foreach ($headers as $name => $value) {
            if (preg_match('/[\r\n\0]/', $name . $value)) {
                throw new UnsignableException("the header $name holds a line feed");
            }
            $lines[] = "$name: $value";
        }
        if ($body === null && in_array($method, ['POST', 'PUT', 'PATCH'], true)) {
            $lines[] = 'Content-Length: 0';
        }
        $received = [];
        $curl = curl_init($origin[0] . $target);
        curl_setopt_array($curl, [
            CURLOPT_CUSTOMREQUEST => $method,
            CURLOPT_NOBODY => $method === 'HEAD',
            CURLOPT_PATH_AS_IS => true,
            CURLOPT_HTTPHEADER => $lines,
            CURLOPT_RETURNTRANSFER => true,
            CURLOPT_CONNECTTIMEOUT => 10,
            CURLOPT_TIMEOUT => $this->timeout,
            CURLOPT_PROTOCOLS => CURLPROTO_HTTP | CURLPROTO_HTTPS,
            CURLOPT_HEADERFUNCTION => static function ($curl, string $line) use (&$received): int {
                if (str_starts_with($line, 'HTTP/')) {
                    $received = []; // those before were of an interim answer
                } elseif (str_contains($line, ':')) {
                    [$name, $value] = explode(':', $line, 2);
                    $name = strtolower($name);
                    $received[$name] = (isset($received[$name]) ? $received[$name] . ', ' : '') . trim($value);
                }

                return strlen($line);
            },
        ]);
        if ($body !== null) {
            curl_setopt($curl, CURLOPT_POSTFIELDS, $body->bytes);
        }
        $content = curl_exec($curl);
        if ($content === false) {
            return [curl_errno($curl), curl_error($curl)];
        }

        return new Answer(curl_getinfo($curl, CURLINFO_RESPONSE_CODE), $received, (string) $content);
    }

    private static function judge(Answer $answer): Answer
    {
        if ($answer->status >= 400) {
            throw new ApiException($answer);
        }
        if ($answer->status >= 300) {
            throw new RedirectException($answer->status, $answer->header('Location'));
        }

        return $answer;
    }

    /**
     * Returns the path with the parameters that are not null, each escaped but for letters, digits and -._~
     *
     * @param array<string, null|scalar> $query
     */
    public static function withQuery(string $path, array $query): string
    {
        $text = http_build_query($query, '', '&', PHP_QUERY_RFC3986);

        return $text === '' ? $path : $path . (str_contains($path, '?') ? '&' : '?') . $text;
    }
}
