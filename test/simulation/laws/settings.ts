/** Laws about the configuration: what the file says is in force, and what was refused never reaches the file. */
import { UNFIT } from '../settings-changes.ts'
import { fieldsOf, type Law, type LawView } from './law.ts'

/** Covers the search for an edit, a settled second reading, and what was decided before. */
const ADOPTED_MS_MAX = 15_000
/** The values of the settings that people change, where the file has no entry. */
const DEFAULTS = {
  policy: { paused: false },
  fleet: { reconnectGraceSeconds: 120 },
  tracker: { eligible: { states: ['Todo'] } },
}
/** Only a redacted form of it leaves the host. */
const SECRET_SECTION = 'agent'

/** The content of the file once it has stood long enough to be in force. */
class SettledFile {
  readonly #view: LawView
  #text: string | undefined
  #since = 0
  #parsed: { readonly text: string | undefined; readonly content: object | undefined } | undefined

  constructor(view: LawView) {
    this.#view = view
  }

  onTick(): void {
    const { disk } = this.#view
    const mayRead = this.#view.isHostAwake() && this.#view.isHostDiskWell()
    if (disk.config === this.#text && mayRead) return
    this.#text = disk.config
    this.#since = this.#view.now()
  }

  /** Undefined while the file is new or holds no configuration. */
  content(): object | undefined {
    const { config } = this.#view.disk
    if (config !== this.#text || this.#view.now() - this.#since < ADOPTED_MS_MAX) return undefined
    if (this.#parsed?.text !== config) this.#parsed = { text: config, content: parse(config) }
    return this.#parsed?.content
  }
}

function parse(text: string | undefined): object | undefined {
  try {
    return Object(JSON.parse(text ?? ''))
  } catch {
    return undefined
  }
}

/** The path of the first value in which `live` differs from what the file says. */
function findDifference(file: unknown, live: unknown, path = ''): string | undefined {
  if (typeof file !== 'object' || file === null || Array.isArray(file))
    return JSON.stringify(file) === JSON.stringify(live) ? undefined : path
  for (const [key, value] of Object.entries(file)) {
    if (path === '' && key === SECRET_SECTION) continue
    const found = findDifference(value, Object(live)[key], `${path}/${key}`)
    if (found !== undefined) return found
  }
  return undefined
}

function withDefaults(file: object): object {
  const own = { policy: {}, fleet: {}, tracker: {}, ...file }
  return {
    ...own,
    policy: { ...DEFAULTS.policy, ...own.policy },
    fleet: { ...DEFAULTS.fleet, ...own.fleet },
    tracker: { ...DEFAULTS.tracker, ...own.tracker },
  }
}

const liveIsTheFile: Law = {
  number: '20',
  sentence: 'the configuration in force equals the file, and a refused patch never reaches the file',
  observe: (view, fail) => {
    const file = new SettledFile(view)
    let judged: readonly (object | undefined)[] = []
    return {
      onTick: () => {
        file.onTick()
        if (view.disk.config?.includes(UNFIT) === true) fail('the file holds what was refused')
        const live = view.liveConfig()
        const content = file.content()
        if (live === undefined || content === undefined) return
        if (judged[0] === content && judged[1] === live) return
        judged = [content, live]
        const path = findDifference(withDefaults(content), live)
        if (path !== undefined) fail(`${path} is not what the file says`, { file: content, live })
        const { repos: mapped } = { repos: {}, ...content }
        const { repos } = { repos: {}, ...live }
        if (Object.keys(mapped).join() !== Object.keys(repos).join())
          fail('other repositories are mapped than the file says', { mapped, repos })
      },
      onResponse: ({ operation }, ok) => {
        if (operation === 'unfit change' && ok) fail('a patch that the host must refuse was accepted')
      },
    }
  },
}

const pausedMeansPaused: Law = {
  number: '20',
  sentence: 'no run is given to a worker while the file says that dispatching is paused',
  observe: (view, fail) => {
    const file = new SettledFile(view)
    let granted: string | undefined
    return {
      onTick: () => file.onTick(),
      onBeforeCommit: ({ changes }) => {
        granted = changes.find(
          (change) =>
            change.is === 'snapshot' && change.kind === 'lease' && view.lease(change.key) === undefined,
        )?.key
      },
      onCommitted: () => {
        const { policy } = { policy: undefined, ...file.content() }
        const { paused } = { paused: false, ...Object(policy) }
        if (granted !== undefined && view.lease(granted) !== undefined && paused === true)
          fail(`${granted} is given to a worker`, fieldsOf(view.disk.snapshot('lease', granted)))
      },
    }
  },
}

const jobsFollowTheFile: Law = {
  number: '20',
  sentence: 'a job names the repository as the file maps it',
  observe: (view, fail) => {
    const file = new SettledFile(view)
    return {
      onTick: () => file.onTick(),
      onHostSends: (_connection, frame) => {
        const content = file.content()
        if (frame.type !== 'dispatch' || content === undefined) return
        const { repos } = { repos: {}, ...content }
        const { remote, defaultBranch = 'main' } = { remote: undefined, ...Object(Object.values(repos)[0]) }
        const { repo } = frame.job
        if (repo.remote !== remote || repo.defaultBranch !== defaultBranch)
          fail(`${frame.lease.id} names another repository`, { repo, repos })
      },
    }
  },
}

export const settingsLaws: readonly Law[] = [liveIsTheFile, pausedMeansPaused, jobsFollowTheFile]
