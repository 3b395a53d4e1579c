using System;
using System.Collections.Generic;
using System.IO;
using System.Text;

namespace CardGateway
{
    /// <summary>What a request carries. It is built once: what is signed is what is sent.</summary>
    public sealed class Body
    {
        private Body(string contentType, byte[] bytes)
        {
            ContentType = contentType;
            Bytes = bytes;
        }

        internal string ContentType { get; }

        internal byte[] Bytes { get; }

        /// <summary>Returns a body of bytes.</summary>
        public static Body Of(string contentType, byte[] bytes) => new Body(contentType, bytes);

        /// <summary>Returns text that is JSON already.</summary>
        public static Body JsonText(string text) => new Body("application/json", Encoding.UTF8.GetBytes(text));

        /// <summary>Returns a value as JSON: an anonymous object, a dictionary, a list, text or a number.</summary>
        public static Body Json(object value) => JsonText(JsonWriter.Write(value));

        /// <summary>Returns a form with the fields and one file.</summary>
        public static Body Form(IEnumerable<KeyValuePair<string, string>> fields, string field, string filename, byte[] content)
        {
            var boundary = Guid.NewGuid().ToString("N");
            var form = new MemoryStream();
            foreach (var pair in fields)
            {
                Part(form, boundary, Quoted(pair.Key) + "\r\n\r\n", Encoding.UTF8.GetBytes(pair.Value));
            }
            Part(form, boundary, Quoted(field) + "; filename=" + Quoted(filename) + "\r\nContent-Type: application/octet-stream\r\n\r\n", content);
            Write(form, Encoding.UTF8.GetBytes("--" + boundary + "--\r\n"));
            return new Body("multipart/form-data; boundary=" + boundary, form.ToArray());
        }

        private static void Part(Stream form, string boundary, string head, byte[] content)
        {
            Write(form, Encoding.UTF8.GetBytes("--" + boundary + "\r\nContent-Disposition: form-data; name=" + head));
            Write(form, content);
            Write(form, Encoding.UTF8.GetBytes("\r\n"));
        }

        private static void Write(Stream form, byte[] bytes) => form.Write(bytes, 0, bytes.Length);

        private static string Quoted(string name)
            => "\"" + name.Replace("\"", "%22").Replace("\r", "%0D").Replace("\n", "%0A") + "\"";
    }
}
