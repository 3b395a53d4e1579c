using System;

namespace CardGateway
{
    /// <summary>Names one call: what is signed once, and accepted at most once.</summary>
    public sealed class Call
    {
        /// <summary>Takes a text that no other request of the key has, and the time. CardClient.NewCall makes both.</summary>
        public Call(string nonce, DateTimeOffset timestamp)
        {
            Nonce = nonce;
            Timestamp = DateTimeOffset.FromUnixTimeSeconds(timestamp.ToUnixTimeSeconds());
        }

        /// <summary>The nonce.</summary>
        public string Nonce { get; }

        /// <summary>The timestamp, in whole seconds.</summary>
        public DateTimeOffset Timestamp { get; }

        /// <summary>When nothing can execute the call any more: after the gateway's window, and a minute for the clocks.</summary>
        public DateTimeOffset Until => Timestamp.AddMinutes(6);
    }
}
