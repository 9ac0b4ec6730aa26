/**
 * The noun `deploy`: recipes for fleets that something else runs. `documents.ts` is the place to begin.
 *
 * Everything here turns options into text. Each value is checked against the grammar of the place in which it ends up,
 * so that none changes the document around it.
 */
import { InvalidArgumentError, Option } from '@commander-js/extra-typings'
import { RUN_MINUTES_MAX, WORKER_CONCURRENCY_MAX, WORKER_IDLE_SECONDS_MAX } from '../../../protocol/limits.ts'
import { parseHostUrl } from '../../../worker/host-url.ts'
import { parseFingerprintOption, parsePrivateHost, parseWholeNumber } from '../../process/parse-option.ts'
import { clientCommand } from '../command/client-options.ts'
import { clientAction } from '../command/run-command.ts'
import { DEFAULT_DEPLOYMENT as DEFAULTS, RECIPES } from './deployment.ts'

/** The largest values of `switchyard deploy kubernetes`. */
const DEPLOY_WORKERS_MAX = 10_000
const DEPLOY_CPUS_MAX = 1_024
const DEPLOY_MEMORY_GIB_MAX = 16_384
const DEPLOY_DISK_GIB_MAX = 65_536

const loadDeploy = () => import('./deploy.ts')

export const deployCommand = () =>
  clientCommand('deploy', 'Print what runs workers elsewhere: kubernetes').addCommand(kubernetesVerb())

const whole = <Flags extends string>(flags: Flags, what: string, most: number) =>
  new Option(flags, what).argParser((text) => parseWholeNumber(text, 1, most))

const recipe = () =>
  new Option('--recipe <recipe>', 'jobs: one for each run; statefulset: lasting workers with volumes')
    .choices(RECIPES)
    .default(DEFAULTS.recipe)
const hostUrl = () =>
  new Option('--host-url <url>', 'where pods reach the fleet listener of the host')
    .default(DEFAULTS.hostUrl)
    .argParser(parseHostAddress)
const joinKeySecret = () =>
  new Option('--join-key-secret <name>', 'the Secret with the join key')
    .default(DEFAULTS.joinKeySecret)
    .argParser(parseObjectName)
const caSecret = () =>
  new Option(
    '--ca-secret <name>',
    'a Secret with the authority (ca.crt) of the host’s certificate',
  ).argParser(parseObjectName)
const fingerprint = () =>
  new Option(
    '--fingerprint <sha256>',
    'of the host’s certificate or its key, in place of an authority',
  ).argParser(parseFingerprintOption)
const privateCodeHost = () =>
  new Option('--private-code-host <host[:port]>', 'as for worker; repeatable')
    .default([] as readonly string[], 'none')
    .argParser((text, earlier: readonly string[]) => [...earlier, parsePrivateHost(text)])
const idleSeconds = () =>
  whole(
    '--idle-seconds <n>',
    `jobs: end when no run came for so long (default: ${DEFAULTS.idleSeconds})`,
    WORKER_IDLE_SECONDS_MAX,
  )
const concurrency = () =>
  whole(
    '--concurrency <n>',
    `statefulset: runs at once (default: ${DEFAULTS.concurrency})`,
    WORKER_CONCURRENCY_MAX,
  )
const storageClass = () =>
  new Option(
    '--storage-class <name>',
    'statefulset: of the volumes (default: that of the cluster)',
  ).argParser(parseObjectName)

const kubernetesVerb = () =>
  clientCommand('kubernetes', 'Manifests for workers in Kubernetes, scaled by KEDA')
    .option('--print', 'print the manifests; nothing else is done')
    .addOption(recipe())
    .addOption(hostUrl())
    .option('--insecure', 'allow a line without encryption to the host')
    .addOption(
      new Option('--image <image>', 'the image of the worker').default(DEFAULTS.image).argParser(parseImage),
    )
    .addOption(
      new Option('--namespace <name>', 'where everything is')
        .default(DEFAULTS.namespace)
        .argParser(parseNamespace),
    )
    .addOption(joinKeySecret())
    .addOption(caSecret())
    .addOption(fingerprint())
    .addOption(privateCodeHost())
    .addOption(whole('--max-workers <n>', 'pods at once', DEPLOY_WORKERS_MAX).default(DEFAULTS.maxWorkers))
    .addOption(
      whole(
        '--max-run-minutes <n>',
        'sandbox.maxRunMinutes: so long a stop waits for runs',
        RUN_MINUTES_MAX,
      ).default(DEFAULTS.maxRunMinutes),
    )
    .addOption(idleSeconds())
    .addOption(concurrency())
    .addOption(whole('--cpus <n>', 'processors that a pod asks for', DEPLOY_CPUS_MAX).default(DEFAULTS.cpus))
    .addOption(
      whole('--memory-gib <n>', 'memory of a pod', DEPLOY_MEMORY_GIB_MAX).default(DEFAULTS.memoryGib),
    )
    .addOption(
      whole('--disk-gib <n>', 'disk for sandboxes and repositories', DEPLOY_DISK_GIB_MAX).default(
        DEFAULTS.diskGib,
      ),
    )
    .addOption(storageClass())
    .action(clientAction(loadDeploy, ({ kubernetes }, context) => kubernetes(context)))

const NAME_CHARS_MAX = 253
const LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/
/** A registry with or without a port, the path, and a tag, a digest or both. */
const IMAGE =
  /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?(\/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[\w][\w.-]{0,127})?(@sha256:[0-9a-f]{64})?$/
const IMAGE_CHARS_MAX = 512

function parseNamespace(text: string): string {
  if (LABEL.test(text)) return text
  throw new InvalidArgumentError('It must be a name of Kubernetes: a-z, 0-9 and -, at most 63 characters.')
}

/** The name of a Secret or a storage class. */
function parseObjectName(text: string): string {
  if (text.length <= NAME_CHARS_MAX && text.split('.').every((part) => LABEL.test(part))) return text
  throw new InvalidArgumentError('It must be the name of an object of Kubernetes: a-z, 0-9, - and dots.')
}

function parseImage(text: string): string {
  if (text.length <= IMAGE_CHARS_MAX && IMAGE.test(text)) return text
  throw new InvalidArgumentError('It must be an image, like registry.example/switchyard-worker:1.0.')
}

/** Whether the address may be unencrypted is asked when all options are known. */
function parseHostAddress(text: string): string {
  const parsed = /^[\x21-\x7e]+$/.test(text) ? parseHostUrl(text, true) : undefined
  if (parsed === undefined || !parsed.ok)
    throw new InvalidArgumentError('It must be the address of a host, like https://host.example:4401.')
  if (parsed.value.loopback)
    throw new InvalidArgumentError('It must be an address that pods reach; loopback is the pod itself.')
  return new URL(text).href.replace(/\/+$/, '')
}
