/**
 * createSsh reaches other machines by SSH: with a verified host key, a key file or the user's agent, and one shell
 * command at a time.
 *
 * No command line holds a value. Output, time and every wait are bounded, and a connection that has gone silent is
 * noticed. The host's own SSH configuration (`~/.ssh/config`) is not read.
 */
import { connect as dial, type Socket } from 'node:net'
import type { Duplex, Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { AnyAuthMethod, Client, ClientChannel, ServerHostKeyAlgorithm } from 'ssh2'
import type { Clock } from '../core/ports/clock.ts'
import type {
  HostKeySource,
  RemoteCommand,
  RemoteMachines,
  RemoteOutput,
  RemoteShell,
  RemoteTarget,
} from '../core/ports/machines.ts'
import { keyFingerprint, keyTypeName } from '../core/provision/known-hosts.ts'
import { remoteLine } from '../core/provision/step-lines.ts'
import { remoteCommandLine, remoteInput, targetId } from '../core/provision/target.ts'
import { no, type Result, yes } from '../core/result.ts'
import { quoteWord } from '../protocol/quote-word.ts'
import {
  type HostKeyTrust,
  type IdentityFile,
  readIdentityFile,
  readTrust,
  type SshUser,
} from './ssh-files.ts'

const PROVISION_CONNECT_MS_MAX = 15_000
/** The output of one remote command; a command that writes more is ended. */
const PROVISION_OUTPUT_BYTES_MAX = 64 * 1024

export interface SshPorts extends SshUser {
  readonly clock: Pick<Clock, 'after'>
}

/** How often a silent connection is asked for a sign, and how often in vain. */
const KEEPALIVE = { keepaliveInterval: 5_000, keepaliveCountMax: 3 }

export function createSsh(ports: SshPorts): RemoteMachines {
  return {
    async connect(target) {
      const identity = await readIdentity(ports, target)
      if (!identity.ok) return identity
      const trust = await readTrust(ports, target)
      const socket = await openSocket(target, ports)
      return socket.ok
        ? handshake({ target, ports, trust, identity: identity.value, socket: socket.value })
        : socket
    },
  }
}

type Identity = IdentityFile | { readonly agent: string }

/** A key file that can't be used is refused before the target is asked. */
async function readIdentity(ports: SshPorts, { identityFile }: RemoteTarget): Promise<Result<Identity>> {
  if (identityFile === undefined) {
    const agent = ports.environment.SSH_AUTH_SOCK ?? ''
    return agent === ''
      ? no(
          'invalid',
          '/identityFile: is missing, and the host has no SSH agent (SSH_AUTH_SOCK is not set where it was started)',
        )
      : yes({ agent })
  }
  const read = await readIdentityFile(ports, identityFile)
  if (!read.ok) return read
  const { utils } = await loadLibrary()
  const parsed = utils.parseKey(read.value.key)
  const first = Array.isArray(parsed) ? parsed[0] : parsed
  if (first instanceof Error || first === undefined || !first.isPrivateKey())
    return no('invalid', identityProblem(read.value.path, first instanceof Error ? first.message : ''))
  return read
}

function identityProblem(path: string, reason: string): string {
  if (/encrypted|passphrase/i.test(reason))
    return `/identityFile: ${path} is encrypted; add it to the SSH agent with ssh-add ${quoteWord(path)}, and leave the file out`
  return `/identityFile: ${path} holds no private key that can be read`
}

/** The library is CommonJS and is loaded when the first machine is provisioned. */
const loadLibrary = async () => (await import('ssh2')).default

// ---- the handshake -------------------------------------------------------------------------------------------------

interface Handshake {
  readonly target: RemoteTarget
  readonly ports: SshPorts
  readonly trust: HostKeyTrust
  readonly identity: Identity
  readonly socket: Socket
}

async function handshake(order: Handshake): Promise<Result<RemoteShell>> {
  const { target, ports, trust, identity, socket } = order
  const { Client: SshClient } = await loadLibrary()
  const client = new SshClient()
  let refused: Result<never> | undefined
  let hostKey: { readonly name: string; readonly from: HostKeySource } | undefined
  const verify = (key: Buffer): boolean => {
    const judged = trust.judge(key)
    const name = `${keyTypeName(key)} ${keyFingerprint(key)}`
    if (judged.ok) hostKey = { name, from: judged.value }
    else refused = judged
    return judged.ok
  }
  return new Promise((resolve) => {
    const end = (result: Result<RemoteShell>) => {
      cancel()
      if (!result.ok) client.destroy()
      resolve(result)
    }
    const cancel = ports.clock.after(PROVISION_CONNECT_MS_MAX, () =>
      end(no('failed', 'the SSH server did not answer in time')),
    )
    client.once('ready', () => {
      const { name, from } = hostKey ?? { name: '', from: 'known_hosts' as const }
      end(
        yes(
          new SshShell(
            client,
            { hostKey: name, hostKeyFrom: from, localAddress: socket.localAddress ?? '' },
            ports,
          ),
        ),
      )
    })
    client.on('error', (error) => end(refused ?? no('failed', describeError(error, target, identity))))
    client.once('close', () => end(refused ?? no('failed', 'the SSH server closed the connection')))
    client.connect({
      sock: socket,
      username: target.user,
      ...KEEPALIVE,
      // The limit above covers the handshake as well.
      readyTimeout: 0,
      hostVerifier: verify,
      authHandler: [authentication(target, identity)],
      ...(trust.keyTypes.length === 0
        ? {}
        : { algorithms: { serverHostKey: algorithmsFor(trust.keyTypes) } }),
    })
  })
}

const authentication = ({ user }: RemoteTarget, identity: Identity): AnyAuthMethod =>
  'agent' in identity
    ? { type: 'agent', username: user, agent: identity.agent }
    : { type: 'publickey', username: user, key: identity.key }

/** Asks for a key of a type by which the machine is known, as OpenSSH does. */
function algorithmsFor(types: readonly string[]): ServerHostKeyAlgorithm[] {
  const known = types.flatMap((type): ServerHostKeyAlgorithm[] =>
    type === 'ssh-rsa' ? ['rsa-sha2-512', 'rsa-sha2-256'] : HOST_KEY_TYPES.filter((each) => each === type),
  )
  return [...known, ...HOST_KEY_TYPES.filter((type) => !known.includes(type))]
}

const HOST_KEY_TYPES: readonly ServerHostKeyAlgorithm[] = [
  'ssh-ed25519',
  'ecdsa-sha2-nistp256',
  'ecdsa-sha2-nistp384',
  'ecdsa-sha2-nistp521',
  'rsa-sha2-512',
  'rsa-sha2-256',
]

function describeError(
  error: Error & { readonly level?: string | undefined },
  target: RemoteTarget,
  identity: Identity,
): string {
  const at = targetId(target)
  if (error.level === 'agent') return `the SSH agent does not answer: ${remoteLine(error.message)}`
  if (error.level !== 'client-authentication') return remoteLine(error.message)
  return 'agent' in identity
    ? `${at} accepts no key of the SSH agent; see ssh-add -l, or name a key file`
    : `${at} does not accept the key ${identity.path}; let it with: ssh-copy-id -i ${quoteWord(identity.path)} ${at}`
}

// ---- commands ------------------------------------------------------------------------------------------------------

class SshShell implements RemoteShell {
  readonly hostKey: string
  readonly hostKeyFrom: HostKeySource
  readonly localAddress: string
  readonly #client: Client
  readonly #ports: SshPorts
  #isLost = false

  constructor(
    client: Client,
    facts: Pick<RemoteShell, 'hostKey' | 'hostKeyFrom' | 'localAddress'>,
    ports: SshPorts,
  ) {
    this.#client = client
    this.#ports = ports
    this.hostKey = facts.hostKey
    this.hostKeyFrom = facts.hostKeyFrom
    this.localAddress = facts.localAddress
    client.once('close', () => {
      this.#isLost = true
    })
  }

  close(): void {
    this.#client.destroy()
  }

  run(command: RemoteCommand): Promise<Result<RemoteOutput>> {
    if (this.#isLost) return Promise.resolve(LOST)
    return new Promise((resolve) => {
      let channel: ClientChannel | undefined
      const end = (result: Result<RemoteOutput>) => {
        cancel()
        this.#client.off('close', onLost)
        channel?.destroy()
        resolve(result)
      }
      const onLost = () => end(LOST)
      const cancel = this.#ports.clock.after(command.msMax, () =>
        end(no('failed', `no answer within ${Math.round(command.msMax / 1000)} s`)),
      )
      this.#client.once('close', onLost)
      const onChannel = (error: Error | undefined, opened: ClientChannel) => {
        if (error !== undefined) return end(no('failed', remoteLine(error.message)))
        channel = opened
        converse(opened, command, end)
      }
      try {
        this.#client.exec(remoteCommandLine(command), onChannel)
      } catch (error) {
        // A connection that ended in this moment throws.
        end(no('unavailable', remoteLine(String(error))))
      }
    })
  }
}

const LOST = no('unavailable', 'the connection was lost')

/** A channel of the SSH library. */
type CommandChannel = Duplex & { readonly stderr: Readable }

/**
 * Sends the input of one remote command over its channel, and collects the bounded output until the channel closes.
 */
function converse(
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

/** Opens the connection to a machine's SSH server, within a time limit. */
function openSocket(
  { host, port }: Pick<RemoteTarget, 'host' | 'port'>,
  { clock }: { readonly clock: Pick<Clock, 'after'> },
): Promise<Result<Socket>> {
  return new Promise((resolve) => {
    const socket = dial({ host, port })
    const end = (result: Result<Socket>) => {
      cancel()
      if (!result.ok) socket.destroy()
      resolve(result)
    }
    const cancel = clock.after(PROVISION_CONNECT_MS_MAX, () =>
      end(no('failed', `no answer from port ${port} within ${PROVISION_CONNECT_MS_MAX / 1000} s`)),
    )
    socket.once('connect', () => end(yes(socket)))
    // The listener stays, because the library adds its own only later.
    socket.on('error', ({ message }) => end(no('failed', remoteLine(message))))
  })
}
