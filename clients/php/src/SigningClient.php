<?php

declare(strict_types=1);

namespace CardGateway;

use Psr\Http\Client\ClientExceptionInterface;
use Psr\Http\Client\ClientInterface;
use Psr\Http\Message\RequestInterface;
use Psr\Http\Message\ResponseInterface;

/**
 * Signs what another client of PSR-18 sends, each attempt anew. That client must not follow redirects. After an error
 * of it, only GET is repeated: PSR-18 does not tell what was sent.
 */
final class SigningClient implements ClientInterface
{
    public function __construct(private ClientInterface $client, private Policy $policy)
    {
    }

    public function sendRequest(RequestInterface $request): ResponseInterface
    {
        [$target, $body] = self::read($this->policy, $request);
        $exchange = $this->policy->begin($request->getMethod());
        while (true) {
            try {
                $response = $this->client->sendRequest(self::sign($request, $exchange, $target, $body));
                $answer = self::answer($response, $exchange->verifies());
                $wait = $exchange->afterAnswer($answer);
                if ($wait === null) {
                    $exchange->verify($answer);

                    return $response;
                }
            } catch (ClientExceptionInterface $failure) {
                $wait = $exchange->afterFailure(true) ?? throw $failure;
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

    /** Returns a signed copy of the request. */
    public static function sign(RequestInterface $request, Exchange $exchange, string $target, string $body): RequestInterface
    {
        $request->getBody()->rewind();
        foreach ($exchange->sign($target, $body) as $name => $value) {
            $request = $request->withHeader($name, $value);
        }

        return $request;
    }

    /**
     * Returns what decides about another attempt.
     *
     * @param bool $whole whether with its body, for every status
     */
    public static function answer(ResponseInterface $response, bool $whole): Answer
    {
        $headers = [];
        foreach (array_keys($response->getHeaders()) as $name) {
            $headers[strtolower((string) $name)] = $response->getHeaderLine((string) $name);
        }
        $answer = new Answer($response->getStatusCode(), $headers, '');
        if ($response->getBody()->isSeekable() && ($whole || $answer->status === 401)) {
            $answer->body = (string) $response->getBody();
            $response->getBody()->rewind();
        } elseif ($whole) {
            throw new UnprovenException($answer, $answer->isUnsigned(), 'its body is a stream that cannot be read twice; do not ask for a stream');
        }

        return $answer;
    }
}
