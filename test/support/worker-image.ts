/** The image that `npm run test:image` has built and unpacked, as the tests of containers start it. */
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface WorkerImage {
  readonly root: string
  readonly entrypoint: readonly string[]
  readonly environment: Readonly<Record<string, string>>
}

interface Bundle {
  readonly process: { readonly args: readonly string[]; readonly env: readonly string[] }
}

/** Undefined unless a bundle of umoci is named by the environment. */
export function openWorkerImage(): WorkerImage | undefined {
  const bundle = process.env.SWITCHYARD_WORKER_IMAGE
  if (bundle === undefined || bundle === '') return undefined
  const { process: started }: Bundle = JSON.parse(readFileSync(join(bundle, 'config.json'), 'utf8'))
  // The image's own command follows its entry point.
  const entrypoint = started.args.slice(0, started.args.indexOf('worker'))
  const environment = Object.fromEntries(started.env.map((each) => each.split(/=(.*)/).slice(0, 2)))
  const root = join(bundle, 'rootfs')
  // Only root of this machine may create mount points in it.
  mkdirSync(join(root, 'etc/switchyard/join'), { recursive: true })
  return { root, entrypoint, environment }
}
