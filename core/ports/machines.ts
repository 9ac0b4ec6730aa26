/**
 * The ports of the machines where workers run: the process of a worker on this machine, and the shell on a machine that
 * SSH reaches, with the files that are copied there.
 */
import type { Result } from '../result.ts'

// ---- the worker on this machine --------------------------------------------------------------------------------------

/** The part of the local worker that the configuration decides. Another value takes a new process. */
export interface LocalWorkerSettings {
  readonly concurrency: number
  /** The folder of the local code host, which the worker's git may use. */
  readonly codeHostFolder: string | null
  /** `host:port` of the configured code host, which may be at a private address. */
  readonly codeHostOrigin: string | null
}

export interface LocalWorkerOptions extends LocalWorkerSettings {
  /** The host no longer accepts the worker's credential, so the worker must register with a new pairing token. */
  readonly enrollAgain: boolean
  /** Creates a pairing token. Called only when the worker has no valid credential. */
  readonly createPairingToken: () => string
}

export interface LocalWorkerExit {
  /** The exit code; absent when a signal ended the process. */
  readonly code?: number
  readonly signal?: string
}

/** The process of the local worker. The process also ends at once when the host's process ends. */
export interface LocalWorkerProcess {
  /** The worker whose credential the process began with; absent for one that registers with a token. */
  readonly workerId?: string
  /** Makes the worker accept no more runs and end when its current runs are done. */
  drain(): void
  /**
   * Ends the worker and its runs now. Finished work stays on the worker's disk and is reported after the next start.
   */
  stop(): void
  /** Kills the process at once. */
  kill(): void
  /** Resolves when the process has ended. Never rejects. */
  readonly ended: Promise<LocalWorkerExit>
}

/** Starts worker daemons on this machine, each in its own process, one at a time. */
export interface LocalWorkerLauncher {
  start(options: LocalWorkerOptions): Promise<Result<LocalWorkerProcess>>
}

// ---- other machines --------------------------------------------------------------------------------------------------

/** A file or a stream that is sent to a remote command after its values. */
export interface Payload {
  read(): AsyncIterable<Uint8Array>
}

export interface RemoteCommand {
  /** A constant text for a POSIX shell; everything that varies is a value or the payload. */
  readonly script: string
  /** Written to the command's standard input, each after the number of its lines. */
  readonly values: readonly string[]
  readonly payload?: Payload
  readonly msMax: number
}

export interface RemoteOutput {
  /** Absent when a signal ended the command. */
  readonly code?: number
  readonly out: string
  readonly err: string
}

export type HostKeySource = 'known_hosts' | 'hostKeySha256'

export interface RemoteShell {
  /** Like `ED25519 SHA256:9mXq…`. */
  readonly hostKey: string
  readonly hostKeyFrom: HostKeySource
  /** The address of this machine on the connection. */
  readonly localAddress: string
  /**
   * Refused as `unavailable` when the connection is lost, and as `failed` when the command took too long or wrote too
   * much.
   */
  run(command: RemoteCommand): Promise<Result<RemoteOutput>>
  close(): void
}

export interface RemoteTarget {
  readonly host: string
  readonly port: number
  readonly user: string
  readonly identityFile?: string
  readonly hostKeySha256?: string
}

export interface RemoteMachines {
  /**
   * Refused as `invalid` when the key file can't be used, as `conflict` when the machine's key is not trusted, and as
   * `failed` for everything else.
   */
  connect(target: RemoteTarget): Promise<Result<RemoteShell>>
}

/** A file that is copied to a target. */
export interface CopiedFile extends Payload {
  readonly bytes: number
  readonly sha256: string
}

export interface WorkerPackage extends CopiedFile {
  readonly version: string
  /** The one folder in the archive. */
  readonly folder: string
}

/** The program that runs the host, which a target without a suitable Node.js gets. */
export interface HostNode extends CopiedFile {
  /** Like `v20.20.2`. */
  readonly version: string
  readonly arch: string
}

/** The files that a provisioned machine receives. */
export interface WorkerFiles {
  /** @param arch Node's name of the target's processor */
  findPackage(arch: string): Promise<Result<WorkerPackage>>
  /** undefined: this host's own program can't run anywhere else. */
  hostNode(): Promise<HostNode | undefined>
  /** The certificates that a worker must trust besides those of its system; undefined when there are none. */
  fleetAuthority(certFile: string): Promise<string | undefined>
}
