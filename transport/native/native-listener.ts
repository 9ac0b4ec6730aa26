/**
 * `createNativeListener` implements the listener port with uWebSockets.js, whose requests, responses and sockets pass
 * through unchanged.
 *
 * The library's parser answers some requests itself and closes the connection: 505 when the first line is not HTTP/1.1
 * (on Node 20 also when it arrives in two chunks), 400 without Host or with both a length and a transfer encoding. On
 * Node 20 requests without headers or with control characters in them count as unfinished and are closed after ten
 * seconds; newer builds answer 400 at once, also to a second Host.
 * A refused listen returns `false`, and passing `false` back to the library ends the process.
 */
import type * as uWS from 'uWebSockets.js'
import type { HttpListener, ListenerApp, OpenPort, SocketBehavior } from '../listener-port.ts'

/** The exports of the binary. */
export type NativeLibrary = Pick<
  typeof uWS,
  'App' | 'SSLApp' | 'us_listen_socket_close' | 'us_socket_local_port'
>

export function createNativeListener(library: NativeLibrary): HttpListener {
  hideLibraryHeader(library)
  return {
    name: 'native',
    createApp: (tls) =>
      new NativeApp(
        library,
        tls === undefined
          ? library.App()
          : library.SSLApp({ cert_file_name: tls.certFile, key_file_name: tls.keyFile }),
      ),
  }
}

class NativeApp implements ListenerApp {
  readonly #library: NativeLibrary
  readonly #app: uWS.TemplatedApp

  constructor(library: NativeLibrary, app: uWS.TemplatedApp) {
    this.#library = library
    this.#app = app
  }

  any(handle: Parameters<ListenerApp['any']>[0]): void {
    this.#app.any('/*', handle)
  }

  ws<T>(path: string, behavior: SocketBehavior<T>): void {
    this.#app.ws<T>(path, behavior)
  }

  publish(topic: string, message: Uint8Array): void {
    this.#app.publish(topic, message)
  }

  listen(host: string, port: number): Promise<OpenPort | undefined> {
    const widened: ExclusiveListen = this.#app as uWS.TemplatedApp & ExclusiveListen
    return new Promise((resolve) => {
      widened.listen(host, port, EXCLUSIVE_PORT, (socket) =>
        resolve(socket === false ? undefined : this.#openPort(socket)),
      )
    })
  }

  close(): void {
    this.#app.close()
  }

  #openPort(socket: uWS.us_listen_socket): OpenPort {
    let open: uWS.us_listen_socket | undefined = socket
    return {
      port: this.#library.us_socket_local_port(socket),
      stop: () => {
        if (open !== undefined) this.#library.us_listen_socket_close(open)
        open = undefined
      },
    }
  }
}

/** `LIBUS_LISTEN_EXCLUSIVE_PORT`: the library declares it in an enum that does not exist at run time. */
const EXCLUSIVE_PORT = 1

/** The library accepts host, port and options together; its types declare only pairs of them. */
interface ExclusiveListen {
  listen(
    host: string,
    port: number,
    options: number,
    done: (got: uWS.us_listen_socket | false) => void,
  ): unknown
}

/** Removes the header in which the library names itself. */
function hideLibraryHeader(library: NativeLibrary): void {
  const configure: unknown = Reflect.get(library, '_cfg')
  if (typeof configure === 'function') configure('silent')
}
