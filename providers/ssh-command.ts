/** Sends the input of one remote command over its channel, and collects the bounded output. */
import type { Duplex, Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { remoteInput } from '../core/provision/remote-input.ts'
import type { RemoteCommand, RemoteOutput } from '../core/remote-ports.ts'
import { no, type Result, yes } from '../core/result.ts'
import { PROVISION_OUTPUT_BYTES_MAX } from '../protocol/limits.ts'

/** A channel of the SSH library. */
export type CommandChannel = Duplex & { readonly stderr: Readable }

/** Sends the input and collects the output until the channel closes. */
export function converse(
  channel: CommandChannel,
  command: RemoteCommand,
  end: (result: Result<RemoteOutput>) => void,
): void {
  const [out, err] = [new BoundedText(), new BoundedText()]
  let code: number | undefined
  const take = (text: BoundedText) => (chunk: Buffer) => {
    if (!text.add(chunk))
      end(no('failed', `wrote more than ${PROVISION_OUTPUT_BYTES_MAX / 1024} KiB of output`))
  }
  channel.on('data', take(out))
  channel.stderr.on('data', take(err))
  channel.on('exit', (exitCode: number | null) => {
    code = exitCode ?? undefined
  })
  channel.on('error', () => {})
  channel.on('close', () =>
    end(yes({ out: out.text(), err: err.text(), ...(code === undefined ? {} : { code }) })),
  )
  // A command that ends before it has read everything says why in its output.
  pipeline(inputOf(command), channel).catch(() => {})
}

async function* inputOf(command: RemoteCommand): AsyncGenerator<Uint8Array> {
  yield Buffer.from(remoteInput(command))
  if (command.payload !== undefined) yield* command.payload.read()
}

class BoundedText {
  readonly #chunks: Buffer[] = []
  #bytes = 0

  /** Returns whether there is room for more. */
  add(chunk: Buffer): boolean {
    this.#bytes += chunk.length
    if (this.#bytes > PROVISION_OUTPUT_BYTES_MAX) return false
    this.#chunks.push(chunk)
    return true
  }

  text(): string {
    return Buffer.concat(this.#chunks).toString('utf8')
  }
}
