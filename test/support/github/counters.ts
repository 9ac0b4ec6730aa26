/** Counts the requests to the fake GitHub by route, and their cost. */
export interface RouteCount {
  requests: number
  /** Requests that counted against the hourly budget. */
  charged: number
  notModified: number
}

export class Counters {
  readonly routes = new Map<string, RouteCount>()
  refusedPrimary = 0
  refusedSecondary = 0
  /** Failures of the fake itself; tests expect none. */
  readonly bugs: string[] = []

  count(route: string, status: number, charged: boolean): void {
    const found = this.route(route)
    this.routes.set(route, found)
    found.requests++
    if (charged) found.charged++
    if (status === 304) found.notModified++
  }

  route(route: string): RouteCount {
    return this.routes.get(route) ?? { requests: 0, charged: 0, notModified: 0 }
  }

  get requests(): number {
    return this.#sum('requests')
  }

  get charged(): number {
    return this.#sum('charged')
  }

  get notModified(): number {
    return this.#sum('notModified')
  }

  clear(): void {
    this.routes.clear()
    this.refusedPrimary = 0
    this.refusedSecondary = 0
  }

  #sum(field: keyof RouteCount): number {
    return [...this.routes.values()].reduce((sum, count) => sum + count[field], 0)
  }
}
