/**
 * The repositories whose issues are tickets: those that are configured, each once, however many mappings are for it.
 */
import type { TrackedTicket } from '../../core/ports.ts'
import { normalizeName } from '../../core/tickets/names.ts'
import { chooseRepo } from '../../core/tickets/repo.ts'
import type { RepoMapping, ServiceConfig } from '../../protocol/config.ts'

/** A repository, and every mapping that is for it. */
export interface TicketRepository {
  readonly remote: string
  /** For people: without its owner where that is plain. */
  readonly name: string
  readonly mappings: ServiceConfig['repos']
}

/** By their names in small letters. */
export function listTicketRepositories({ repos }: ServiceConfig): ReadonlyMap<string, TicketRepository> {
  const repositories = new Map<string, { remote: string; mappings: Record<string, RepoMapping> }>()
  for (const [key, mapping] of Object.entries(repos)) {
    const repository = repositories.get(normalizeName(mapping.remote)) ?? {
      remote: mapping.remote,
      mappings: {},
    }
    repository.mappings[key] = mapping
    repositories.set(normalizeName(mapping.remote), repository)
  }
  const names = [...repositories.keys()].map(baseName)
  return new Map(
    [...repositories].map(([key, home]) => {
      const isUnique = names.filter((name) => name === baseName(key)).length === 1
      return [key, { ...home, name: isUnique ? baseName(home.remote) : home.remote }]
    }),
  )
}

const baseName = (remote: string): string => remote.slice(remote.indexOf('/') + 1)

/** An issue's work goes to its own repository; of several mappings for that one, to the one that fits. */
export function pickRepoKey({ ticket }: TrackedTicket, { mappings }: TicketRepository): string | undefined {
  const [only, ...others] = Object.keys(mappings)
  if (others.length === 0) return only
  const choice = chooseRepo(ticket, mappings)
  return choice.ok ? choice.value.key : undefined
}
