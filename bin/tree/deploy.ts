/** The noun `deploy`: recipes for fleets that something else runs. */
import { Option } from '@commander-js/extra-typings'
import {
  DEPLOY_CPUS_MAX,
  DEPLOY_DISK_GIB_MAX,
  DEPLOY_MEMORY_GIB_MAX,
  DEPLOY_WORKERS_MAX,
  RUN_MINUTES_MAX,
  WORKER_CONCURRENCY_MAX,
  WORKER_IDLE_SECONDS_MAX,
} from '../../protocol/limits.ts'
import { runCommand } from '../client/run-command.ts'
import { DEFAULT_DEPLOYMENT as DEFAULTS, RECIPES } from '../deploy/deployment.ts'
import { parseHostAddress, parseImage, parseNamespace, parseObjectName } from '../deploy/parse-values.ts'
import { parseFingerprintOption, parsePrivateHost, parseWholeNumber } from '../parse-option.ts'
import { clientCommand } from './client-options.ts'

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
    .action((options) =>
      runCommand(options, async (context) => (await import('../commands/deploy.ts')).kubernetes(context)),
    )
