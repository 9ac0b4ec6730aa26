/** Words and instants of the inspector. */

/** `14:07:58.123` in local time. */
export function clockWithMs(at: number): string {
  const date = new Date(at)
  const part = (value: number, digits = 2) => String(value).padStart(digits, '0')
  return `${part(date.getHours())}:${part(date.getMinutes())}:${part(date.getSeconds())}.${part(date.getMilliseconds(), 3)}`
}
