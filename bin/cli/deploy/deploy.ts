/** `switchyard deploy kubernetes`: prints the manifests of a fleet in Kubernetes. Needs no host and changes nothing. */

import { usageError } from '../../process/exit.ts'
import type { ClientOptions, CommandContext } from '../command/run-command.ts'
import { DEFAULT_DEPLOYMENT, type Deployment } from './deployment.ts'
import { formatKubernetes, kubernetesDocuments } from './documents.ts'

interface KubernetesFlags {
  readonly print?: true | undefined
  readonly insecure?: true | undefined
  readonly privateCodeHost: readonly string[]
  readonly caSecret?: string
  readonly fingerprint?: string
  readonly idleSeconds?: number | undefined
  readonly concurrency?: number | undefined
  readonly storageClass?: string
}

export type KubernetesOptions = ClientOptions &
  KubernetesFlags &
  Omit<Deployment, keyof KubernetesFlags | 'privateCodeHosts'>

export async function kubernetes({ output, options }: CommandContext<KubernetesOptions>): Promise<void> {
  if (options.print !== true)
    throw usageError(
      'nothing was done: this command only prints manifests, with --print',
      'switchyard deploy kubernetes --print',
    )
  const deployment = readDeployment(options)
  const documents = kubernetesDocuments(deployment)
  if (output.format === 'json') output.json({ apiVersion: 'v1', kind: 'List', items: documents })
  else if (output.format === 'id')
    for (const { kind, metadata } of documents) output.data(`${kind}/${Object(metadata).name}`)
  else output.writeData(formatKubernetes(deployment))
  noteRest(output, deployment)
}

function readDeployment(options: KubernetesOptions): Deployment {
  const { hostUrl, insecure = false, privateCodeHost } = options
  const isEncrypted = /^(https|wss):/.test(hostUrl)
  if (!isEncrypted && !insecure)
    throw usageError(
      `--host-url: ${hostUrl} would be reached without encryption, and credentials of runs go this way`,
      'give the host fleet.tls and use https://, or add --insecure if the network in between is trusted',
    )
  requireRecipe(options)
  return {
    ...options,
    insecure: !isEncrypted,
    privateCodeHosts: privateCodeHost,
    idleSeconds: options.idleSeconds ?? DEFAULT_DEPLOYMENT.idleSeconds,
    concurrency: options.concurrency ?? DEFAULT_DEPLOYMENT.concurrency,
  }
}

/** Options that would have no effect are refused, so that nobody relies on them. */
function requireRecipe({ recipe, idleSeconds, concurrency, storageClass }: KubernetesOptions): void {
  const foreign =
    recipe === 'jobs'
      ? { '--concurrency': concurrency, '--storage-class': storageClass }
      : { '--idle-seconds': idleSeconds }
  const [name] = Object.entries(foreign).find(([, value]) => value !== undefined) ?? []
  if (name === undefined) return
  const otherRecipe = recipe === 'jobs' ? 'statefulset' : 'jobs'
  throw usageError(`${name} belongs to the recipe ${otherRecipe}, and this is ${recipe}`)
}

function noteRest(output: CommandContext['output'], { hostUrl, image }: Deployment): void {
  const examples = [
    ...(hostUrl === DEFAULT_DEPLOYMENT.hostUrl ? ['--host-url'] : []),
    ...(image === DEFAULT_DEPLOYMENT.image ? ['--image'] : []),
  ]
  if (examples.length > 0) output.note(`Example values are in place of your own: ${examples.join(', ')}`)
  output.note('The join key is not among them: the first lines say how to make its Secret.')
}
