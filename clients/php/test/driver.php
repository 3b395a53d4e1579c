<?php

// Runs the cases of tests/clients/matrix through this client: one JSON object a
// line on standard input, one answer a line on standard output.

declare(strict_types=1);

use CardGateway\Answer;
use CardGateway\ApiException;
use CardGateway\Body;
use CardGateway\Call;
use CardGateway\Client;
use CardGateway\ConnectionException;
use CardGateway\GuzzleMiddleware;
use CardGateway\Policy;
use CardGateway\RedirectException;
use CardGateway\Signer;
use CardGateway\SigningClient;
use CardGateway\TakenException;
use CardGateway\UnknownException;
use CardGateway\UnprovenException;
use CardGateway\UnsignableException;
use GuzzleHttp\Exception\TransferException;
use GuzzleHttp\HandlerStack;
use GuzzleHttp\Promise\Utils;

require __DIR__ . '/vendor/autoload.php';
// The distribution's Guzzle.
@include 'GuzzleHttp/autoload.php';

function policy(array $c): Policy
{
    return new Policy(
        $c['base'],
        $c['key_id'],
        $c['secret'],
        attempts: $c['attempts'] ?: 3,
        now: fn (): int => time() + $c['clock'],
        warn: fn () => null,
        verifyAnswers: $c['verify_answers'],
    );
}

function body(array $c): ?Body
{
    $bytes = base64_decode($c['body']);
    if (($c['kind'] ?? '') === 'form') {
        return Body::form(['type' => 'passport'], ['file' => ['Zoë.pdf', $bytes]]);
    }

    return $c['has_body'] ? new Body('application/json', $bytes) : null;
}

function query(array $c): array
{
    return array_column($c['query'] ?? [], 1, 0);
}

function viaClient(array $c): callable
{
    $client = new Client(policy($c));
    $call = isset($c['nonce']) ? new Call($c['nonce'], (int) $c['timestamp']) : null;

    return function () use ($client, $c, $call): array {
        if ($c['do'] === 'close') {
            $client->closeCall($call);

            return ['closed' => true];
        }
        $answer = $client->request($c['method'], Client::withQuery($c['target'], query($c)), body($c), $c['headers'] ?? [], $call);

        return ['status' => $answer->status, 'body' => base64_encode($answer->body)];
    };
}

function options(array $c): array
{
    $body = body($c);
    $options = ['headers' => $c['headers'] ?? [], 'http_errors' => false, 'query' => query($c) ?: null];
    if (isset($c['nonce'])) {
        $options['headers'] += ['X-Nonce' => $c['nonce'], 'X-Timestamp' => $c['timestamp']];
    }
    if ($body !== null) {
        $options['headers'] += ['Content-Type' => $body->contentType];
        $options['body'] = $body->bytes;
    }
    if (($c['kind'] ?? '') === 'stream') {
        $options['body'] = new \GuzzleHttp\Psr7\NoSeekStream(\GuzzleHttp\Psr7\Utils::streamFor($body->bytes));
    }

    return array_filter($options, fn ($value) => $value !== null);
}

function guzzle(array $c): \GuzzleHttp\Client
{
    $stack = HandlerStack::create();
    $stack->push(new GuzzleMiddleware(policy($c)));

    return new \GuzzleHttp\Client(['handler' => $stack]);
}

function viaGuzzle(array $c): callable
{
    return function () use ($c): array {
        $answer = guzzle($c)->request($c['method'], $c['base'] . $c['target'], options($c));

        return ['status' => $answer->getStatusCode(), 'body' => base64_encode((string) $answer->getBody())];
    };
}

function viaPsr(array $c): callable
{
    $client = new SigningClient(new \GuzzleHttp\Client(['allow_redirects' => false]), policy($c));

    return function () use ($client, $c): array {
        $options = options($c);
        $request = new \GuzzleHttp\Psr7\Request(
            $c['method'],
            $c['base'] . Client::withQuery($c['target'], query($c)),
            $options['headers'],
            $options['body'] ?? null
        );
        $answer = $client->sendRequest($request);

        return ['status' => $answer->getStatusCode(), 'body' => base64_encode((string) $answer->getBody())];
    };
}

function way(array $c): callable
{
    return ['client' => 'viaClient', 'guzzle' => 'viaGuzzle', 'psr-18' => 'viaPsr'][$c['adapter']]($c);
}

/** Sends at once: by promises, or by processes. */
function parallel(array $c): array
{
    if ($c['adapter'] === 'guzzle') {
        $client = guzzle($c);
        $all = [];
        for ($i = 0; $i < $c['count']; ++$i) {
            $all[] = $client->requestAsync($c['method'], $c['base'] . $c['target'], options($c));
        }

        return array_map(fn ($answer) => $answer->getStatusCode(), Utils::unwrap($all));
    }
    $send = way($c);
    $children = [];
    for ($i = 0; $i < $c['count']; ++$i) {
        $child = pcntl_fork();
        if ($child === 0) {
            $status = 0;
            try {
                $status = $send()['status'];
            } finally {
                // Without what the driver would do at its end.
                posix_kill(getmypid(), $status === 200 ? SIGTERM : SIGKILL);
            }
        }
        $children[] = $child;
    }

    return array_map(function (int $child): int {
        pcntl_waitpid($child, $state);

        return pcntl_wtermsig($state) === SIGTERM ? 200 : 0;
    }, $children);
}

function run(array $c): array
{
    switch ($c['do']) {
        case 'hello':
            $adapters = ['client' => true];
            if (class_exists(\GuzzleHttp\Client::class)) {
                $adapters += ['guzzle' => false, 'psr-18' => false];
            }

            return ['adapters' => $adapters, 'version' => Client::VERSION];
        case 'trusts':
            return ['trusted' => Policy::trustsDate($c['base'])];
        case 'sign':
            $signer = new Signer($c['key_id'], $c['secret']);
            $headers = $signer->headers($c['method'], $c['target'] ?? '', base64_decode($c['body']), $c['timestamp'] ?? null, $c['nonce'] ?? null);

            return ['signature' => $headers['X-Signature'], 'body_hash' => $headers['X-Body-Hash']];
        case 'verify':
            $headers = array_map(fn (array $values): string => implode(', ', $values), array_change_key_case($c['answer']));
            $answer = new Answer($c['status'], $headers, base64_decode($c['body']));
            (new Signer($c['key_id'], $c['secret']))->verifyAnswer($c['nonce'], $answer, $c['now']);

            return ['verified' => true];
        case 'parallel':
            return ['statuses' => parallel($c)];
        default:
            return way($c)();
    }
}

function named(Call $call): array
{
    return ['nonce' => $call->nonce, 'timestamp' => $call->timestamp, 'until' => $call->until()];
}

function describe(\Throwable $e): array
{
    return match (true) {
        $e instanceof UnsignableException => ['type' => 'unsignable', 'message' => $e->getMessage()],
        $e instanceof ApiException => [
            'type' => 'api', 'status' => $e->status, 'code' => $e->errorCode, 'message' => $e->reason, 'details' => $e->details,
            'request_id' => $e->requestId, 'retry_after' => $e->retryAfter ?? 0, 'not_executed' => $e->notExecuted,
        ],
        $e instanceof TakenException => ['type' => 'taken', 'message' => $e->getMessage()] + named($e->call),
        $e instanceof UnknownException => [
            'type' => 'unknown', 'attempts' => $e->attempts, 'message' => $e->getMessage(),
        ] + named($e->call),
        $e instanceof UnprovenException => [
            'type' => 'unproven', 'status' => $e->status, 'unsigned' => $e->unsigned, 'message' => $e->getMessage(),
        ],
        $e instanceof RedirectException => ['type' => 'redirect', 'location' => $e->location],
        $e instanceof ConnectionException => ['type' => 'connection', 'sent' => $e->sent, 'attempts' => $e->attempts],
        $e instanceof TransferException => ['type' => 'connection'],
        default => ['type' => 'other', 'message' => (string) $e],
    };
}

while (($line = fgets(STDIN)) !== false) {
    try {
        $answer = run(json_decode($line, true, 512, JSON_THROW_ON_ERROR));
    } catch (\Throwable $e) {
        $answer = ['error' => describe($e)];
    }
    echo json_encode($answer, JSON_THROW_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE), "\n";
}
