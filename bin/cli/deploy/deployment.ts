/** The values of a deployment to Kubernetes, as the options of `switchyard deploy kubernetes` give them. */
import { VERSION } from '../../process/this-program.ts'

export const RECIPES = ['jobs', 'statefulset'] as const
export type Recipe = (typeof RECIPES)[number]

export interface Deployment {
  readonly recipe: Recipe
  readonly namespace: string
  readonly image: string
  readonly hostUrl: string
  /** Whether the connection to the host may go unencrypted. */
  readonly insecure: boolean
  /** The Secret that holds the join key under the key `join-key`. */
  readonly joinKeySecret: string
  /** The Secret that holds the host's certificate authority under the key `ca.crt`. */
  readonly caSecret?: string
  /** The SHA-256 of the host's certificate or of its key. */
  readonly fingerprint?: string
  readonly privateCodeHosts: readonly string[]
  readonly maxWorkers: number
  readonly maxRunMinutes: number
  /** How long a job's worker waits for its run. */
  readonly idleSeconds: number
  /** Runs at once of a lasting worker. */
  readonly concurrency: number
  readonly cpus: number
  readonly memoryGib: number
  readonly diskGib: number
  readonly storageClass?: string
}

/** The values of the files in deploy/kubernetes. Image and host are examples, which everybody has to replace. */
export const DEFAULT_DEPLOYMENT: Deployment = {
  recipe: 'jobs',
  namespace: 'switchyard-workers',
  image: `registry.example/switchyard-worker:${VERSION}`,
  hostUrl: 'https://host.example:4401',
  insecure: false,
  joinKeySecret: 'switchyard-join-key',
  privateCodeHosts: [],
  maxWorkers: 10,
  maxRunMinutes: 120,
  idleSeconds: 60,
  concurrency: 2,
  cpus: 1,
  memoryGib: 4,
  diskGib: 20,
}

/** Names and label of all objects of the deployment. */
export const WORKER = 'switchyard-worker'
export const LABELS = { 'app.kubernetes.io/name': WORKER, 'app.kubernetes.io/part-of': 'switchyard' } as const
/** The key of the Secret. */
export const JOIN_KEY = 'join-key'
export const CA_FILE = 'ca.crt'

/** A stop waits until the worker's runs have ended, and then for their reports. */
const REPORT_SECONDS_MAX = 300
export const stopSecondsOf = ({ maxRunMinutes }: Deployment): number =>
  maxRunMinutes * 60 + REPORT_SECONDS_MAX
