/** The one way in which commands and pages write sizes for people: binary, as limits and settings are. */
const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const

/** `812 B`, `1.9 KiB`, `21 MiB`, `41 GiB`. */
export function formatBytes(bytes: number): string {
  let unit = 0
  let amount = bytes
  while (amount >= 1_023.5 && unit < UNITS.length - 1) {
    amount /= 1_024
    unit += 1
  }
  const short = amount.toFixed(1)
  return `${unit === 0 || short.length > 3 ? Math.round(amount) : short} ${UNITS[unit]}`
}
