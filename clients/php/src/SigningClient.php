<?php

declare(strict_types=1);

namespace CardGateway;

use Psr\Http\Client\ClientExceptionInterface;
use Psr\Http\Client\ClientInterface;
use Psr\Http\Message\RequestInterface;
use Psr\Http\Message\ResponseInterface;

/**
 * Signs what another client of PSR-18 sends, and repeats a call as the same bytes. That client must not follow redirects.
 * Its errors are taken for such after which the server may have received the request, except those of Guzzle's curl:
 * PSR-18 does not tell what was sent. A request that has X-Nonce and X-Timestamp already is signed with these.
 */
final class SigningClient implements ClientInterface
{
    public function __construct(private ClientInterface $client, private Policy $policy)
    {
    }

    public function sendRequest(RequestInterface $request): ResponseInterface
    {
        [$target, $body] = self::read($this->policy, $request);
        $exchange = $this->policy->begin($request->getMethod(), self::call($this->policy, $request));
        while (true) {
            try {
                $response = $this->client->sendRequest(self::sign($request, $exchange, $target, $body));
                $wait = $exchange->afterAnswer(self::answer($response, $exchange));
                if ($wait === null) {
                    return $response;
                }
            } catch (ClientExceptionInterface $failure) {
                $wait = $exchange->afterFailure(GuzzleMiddleware::sent($failure), $failure) ?? throw $failure;
            }
            usleep((int) ($wait * 1e6));
        }
    }

    /**
     * Returns the target and the body of a request.
     *
     * @return array{string, string}
     */
    public static function read(Policy $policy, RequestInterface $request): array
    {
        $uri = $request->getUri();
        if (!$policy->serves((string) $uri)) {
            throw new UnsignableException("{$uri->getHost()} is not the host of the base URL");
        }
        if (!$request->getBody()->isSeekable()) {
            throw new UnsignableException('the body is a stream that cannot be read twice, and its hash is sent before it; pass a string');
        }
        $query = $uri->getQuery();

        return [($uri->getPath() ?: '/') . ($query === '' ? '' : "?$query"), (string) $request->getBody()];
    }

    /** Returns the call that the headers of a request name already, or a new one. */
    public static function call(Policy $policy, RequestInterface $request): Call
    {
        $new = $policy->newCall();

        return new Call($request->getHeaderLine('X-Nonce') ?: $new->nonce, (int) ($request->getHeaderLine('X-Timestamp') ?: $new->timestamp));
    }

    /** Returns a signed copy of the request. */
    public static function sign(RequestInterface $request, Exchange $exchange, string $target, string $body): RequestInterface
    {
        $request->getBody()->rewind();
        foreach ($exchange->sign($target, $body) as $name => $value) {
            $request = $request->withHeader($name, $value);
        }

        return $request;
    }

    /** Returns what decides about another attempt, with the body if it can be read twice. */
    public static function answer(ResponseInterface $response, Exchange $exchange): Answer
    {
        $headers = [];
        foreach (array_keys($response->getHeaders()) as $name) {
            $headers[strtolower((string) $name)] = $response->getHeaderLine((string) $name);
        }
        $answer = new Answer($response->getStatusCode(), $headers, '', $response->getBody()->isSeekable());
        if ($answer->readable && $exchange->reads($answer->status)) {
            $answer->body = (string) $response->getBody();
            $response->getBody()->rewind();
        }

        return $answer;
    }
}
