/** State of the fake GitHub, and its access rules. Node ids are opaque and resolved here for both APIs. */
import { createBare } from './plumbing.ts'
import type { GithubPerson, Issue, Repo, RepoLabel, Role, Token } from './records.ts'
import { fullNameOf } from './records.ts'

export interface PersonSeed {
  readonly login: string
  readonly name?: string
  readonly email?: string
  readonly type?: 'User' | 'Organization'
  readonly tokens?: readonly (string | TokenSeed)[]
}

export interface TokenSeed {
  readonly value: string
  readonly scopes?: readonly string[]
  readonly repos?: readonly string[]
  readonly readOnly?: boolean
  readonly expiresAtMs?: number
}

export interface RepoSeed {
  /** `owner/name`; an unknown owner becomes an organization. */
  readonly fullName: string
  readonly private?: boolean
  readonly description?: string | null
  readonly defaultBranch?: string
  readonly pushedAtMs?: number | null
  readonly archived?: boolean
  readonly hasIssues?: boolean
  readonly allow?: Partial<Repo['allow']>
  readonly deleteBranchOnMerge?: boolean
  readonly approvals?: number
  readonly strict?: boolean
  readonly members?: Readonly<Record<string, Role>>
  readonly labels?: readonly string[]
}

/** The authenticated caller. */
export interface GithubViewer {
  readonly person: GithubPerson
  readonly token: Token
}

const RANK: Readonly<Record<Role, number>> = { pull: 1, push: 2, admin: 3 }
const DEFAULT_SCOPES = ['repo', 'workflow']

export class GithubWorld {
  readonly people = new Map<string, GithubPerson>()
  readonly tokens = new Map<string, Token>()
  readonly repos = new Map<string, Repo>()
  /** Renamed repositories by old full name. */
  readonly renamed = new Map<string, Repo>()
  readonly #nodes = new Map<string, object>()
  readonly #folder: string
  readonly #now: () => number
  #lastId = 1000

  constructor(folder: string, now: () => number) {
    this.#folder = folder
    this.#now = now
  }

  now = (): number => this.#now()
  newId = (): number => ++this.#lastId

  /** Node id of a record, stable while the record exists. */
  nodeId(kind: string, id: number, record: object): string {
    const node = `${kind}_kw${Buffer.from(`${kind}:${id}`).toString('base64url')}`
    this.#nodes.set(node, record)
    return node
  }

  node = (id: string): object | undefined => this.#nodes.get(id)

  addPerson(seed: PersonSeed): GithubPerson {
    const person: GithubPerson = {
      id: this.newId(),
      login: seed.login,
      name: seed.name ?? seed.login,
      email: seed.email ?? `${seed.login}@users.noreply.example`,
      type: seed.type ?? 'User',
      createdMs: this.now(),
    }
    this.people.set(seed.login.toLowerCase(), person)
    for (const token of seed.tokens ?? []) this.addToken(seed.login, token)
    return person
  }

  addToken(login: string, token: string | TokenSeed): void {
    const seed = typeof token === 'string' ? { value: token } : token
    this.tokens.set(seed.value, { scopes: DEFAULT_SCOPES, ...seed, login })
  }

  person(login: string | null): GithubPerson | undefined {
    return login === null ? undefined : this.people.get(login.toLowerCase())
  }

  viewerOf(token: string): GithubViewer | undefined {
    const found = this.tokens.get(token)
    if (found === undefined || (found.expiresAtMs ?? Infinity) <= this.now()) return undefined
    const person = this.person(found.login)
    return person && { person, token: found }
  }

  addRepo(seed: RepoSeed, forkOf?: Repo): Repo {
    const [owner = '', name = ''] = seed.fullName.split('/')
    if (this.person(owner) === undefined) this.addPerson({ login: owner, type: 'Organization' })
    const id = this.newId()
    const now = this.now()
    const repo: Repo = {
      id,
      owner,
      name,
      path: `${this.#folder}/${id}.git`,
      private: seed.private ?? true,
      description: seed.description === undefined ? `All about ${name}` : seed.description,
      defaultBranch: seed.defaultBranch ?? 'main',
      createdMs: now,
      pushedMs: seed.pushedAtMs === undefined ? now : seed.pushedAtMs,
      updatedMs: now,
      archived: seed.archived ?? false,
      hasIssues: seed.hasIssues ?? true,
      allow: { merge: true, squash: true, rebase: true, ...seed.allow },
      deleteBranchOnMerge: seed.deleteBranchOnMerge ?? false,
      approvals: seed.approvals ?? 0,
      strict: seed.strict ?? false,
      rejectPushes: undefined,
      forkOf,
      members: new Map(
        Object.entries(seed.members ?? {}).map(([login, role]) => [login.toLowerCase(), role]),
      ),
      labels: new Map(),
      milestones: [],
      issues: new Map(),
      statuses: [],
      checks: [],
      nextNumber: 1,
    }
    for (const label of seed.labels ?? ['bug', 'enhancement']) this.label(repo, label)
    createBare(repo.path, repo.defaultBranch)
    this.repos.set(seed.fullName.toLowerCase(), repo)
    return repo
  }

  /** Label names ignore case and keep their first spelling. */
  label(repo: Repo, name: string, more: { color?: string; description?: string } = {}): RepoLabel {
    const found = repo.labels.get(name.toLowerCase())
    if (found !== undefined) return found
    const label = { id: this.newId(), name, color: 'ededed', description: '', ...more }
    repo.labels.set(name.toLowerCase(), label)
    return label
  }

  repo(fullName: string): Repo | undefined {
    return this.repos.get(fullName.toLowerCase())
  }

  repoById(id: number): Repo | undefined {
    return [...this.repos.values()].find((repo) => repo.id === id)
  }

  rename(repo: Repo, fullName: string): void {
    this.renamed.set(fullNameOf(repo).toLowerCase(), repo)
    this.repos.delete(fullNameOf(repo).toLowerCase())
    const [owner = '', name = ''] = fullName.split('/')
    Object.assign(repo, { owner, name })
    this.repos.set(fullName.toLowerCase(), repo)
  }

  remove(repo: Repo): void {
    this.repos.delete(fullNameOf(repo).toLowerCase())
    for (const { pull } of this.everyIssue()) if (pull?.headRepo === repo) pull.headRepo = null
  }

  *everyIssue(): Iterable<Issue> {
    for (const repo of this.repos.values()) yield* repo.issues.values()
  }

  // ---- access rules -------------------------------------------------------------------------------------------------

  /** Role of a person, regardless of the token. */
  roleOf(login: string | null, repo: Repo): Role | undefined {
    if (login?.toLowerCase() === repo.owner.toLowerCase()) return 'admin'
    return repo.members.get(login?.toLowerCase() ?? '')
  }

  may(viewer: GithubViewer | undefined, repo: Repo, wanted: Role): boolean {
    if (wanted === 'pull' && !repo.private) return true
    if (viewer === undefined || !reaches(viewer.token, repo, wanted)) return false
    const role = this.roleOf(viewer.person.login, repo)
    return role !== undefined && RANK[role] >= RANK[wanted]
  }
}

export function isFineGrained({ value }: Token): boolean {
  return value.startsWith('github_pat_')
}

/** Classic and OAuth tokens have scopes, which replies report. */
export function hasScopes({ value }: Token): boolean {
  return /^gh[po]_/.test(value)
}

function reaches(token: Token, repo: Repo, wanted: Role): boolean {
  if (hasScopes(token))
    return token.scopes.includes('repo') || (!repo.private && token.scopes.includes('public_repo'))
  if (token.repos !== undefined && !token.repos.includes(fullNameOf(repo))) return false
  return wanted === 'pull' || token.readOnly !== true
}
