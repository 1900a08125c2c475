tutti profile 1
# The profile that is built in: what holds where nothing was measured. Not measured itself: rough values that put the
# break points in the right decade on a current x86-64 server. Memory carries 8 to 10 GB/s a stream, less the farther
# away; TCP inside a host 4 GB/s, between hosts 1 GB/s. Pairs of one host that talk at once share what one has.

machine host "" cpu "" cores 0 memory "" kernel ""

measured date "" command "" version 0.1.0

link kind cache transport shm flows 1 ways 1 from 0 to inf alpha_us 0.4 beta_us_per_mib 100 overhead_us 0.12 points 0 error_percent 0
link kind cache transport shm flows 1 ways 2 from 0 to inf alpha_us 0.4 beta_us_per_mib 100 overhead_us 0.12 points 0 error_percent 0
link kind cache transport shm flows 2 ways 1 from 0 to inf alpha_us 0.4 beta_us_per_mib 200 overhead_us 0.12 points 0 error_percent 0
link kind cache transport shm flows 2 ways 2 from 0 to inf alpha_us 0.4 beta_us_per_mib 200 overhead_us 0.12 points 0 error_percent 0
link kind cache transport shm flows 4 ways 1 from 0 to inf alpha_us 0.4 beta_us_per_mib 400 overhead_us 0.12 points 0 error_percent 0
link kind cache transport shm flows 4 ways 2 from 0 to inf alpha_us 0.4 beta_us_per_mib 400 overhead_us 0.12 points 0 error_percent 0
link kind cache transport shm flows 8 ways 1 from 0 to inf alpha_us 0.4 beta_us_per_mib 800 overhead_us 0.12 points 0 error_percent 0
link kind cache transport shm flows 8 ways 2 from 0 to inf alpha_us 0.4 beta_us_per_mib 800 overhead_us 0.12 points 0 error_percent 0
link kind cache transport tcp flows 1 ways 1 from 0 to inf alpha_us 12 beta_us_per_mib 250 overhead_us 3.6 points 0 error_percent 0
link kind cache transport tcp flows 1 ways 2 from 0 to inf alpha_us 12 beta_us_per_mib 250 overhead_us 3.6 points 0 error_percent 0
link kind cache transport tcp flows 2 ways 1 from 0 to inf alpha_us 12 beta_us_per_mib 500 overhead_us 3.6 points 0 error_percent 0
link kind cache transport tcp flows 2 ways 2 from 0 to inf alpha_us 12 beta_us_per_mib 500 overhead_us 3.6 points 0 error_percent 0
link kind cache transport tcp flows 4 ways 1 from 0 to inf alpha_us 12 beta_us_per_mib 1000 overhead_us 3.6 points 0 error_percent 0
link kind cache transport tcp flows 4 ways 2 from 0 to inf alpha_us 12 beta_us_per_mib 1000 overhead_us 3.6 points 0 error_percent 0
link kind cache transport tcp flows 8 ways 1 from 0 to inf alpha_us 12 beta_us_per_mib 2000 overhead_us 3.6 points 0 error_percent 0
link kind cache transport tcp flows 8 ways 2 from 0 to inf alpha_us 12 beta_us_per_mib 2000 overhead_us 3.6 points 0 error_percent 0
link kind numa transport shm flows 1 ways 1 from 0 to inf alpha_us 0.4 beta_us_per_mib 100 overhead_us 0.12 points 0 error_percent 0
link kind numa transport shm flows 1 ways 2 from 0 to inf alpha_us 0.4 beta_us_per_mib 100 overhead_us 0.12 points 0 error_percent 0
link kind numa transport shm flows 2 ways 1 from 0 to inf alpha_us 0.4 beta_us_per_mib 200 overhead_us 0.12 points 0 error_percent 0
link kind numa transport shm flows 2 ways 2 from 0 to inf alpha_us 0.4 beta_us_per_mib 200 overhead_us 0.12 points 0 error_percent 0
link kind numa transport shm flows 4 ways 1 from 0 to inf alpha_us 0.4 beta_us_per_mib 400 overhead_us 0.12 points 0 error_percent 0
link kind numa transport shm flows 4 ways 2 from 0 to inf alpha_us 0.4 beta_us_per_mib 400 overhead_us 0.12 points 0 error_percent 0
link kind numa transport shm flows 8 ways 1 from 0 to inf alpha_us 0.4 beta_us_per_mib 800 overhead_us 0.12 points 0 error_percent 0
link kind numa transport shm flows 8 ways 2 from 0 to inf alpha_us 0.4 beta_us_per_mib 800 overhead_us 0.12 points 0 error_percent 0
link kind numa transport tcp flows 1 ways 1 from 0 to inf alpha_us 12 beta_us_per_mib 250 overhead_us 3.6 points 0 error_percent 0
link kind numa transport tcp flows 1 ways 2 from 0 to inf alpha_us 12 beta_us_per_mib 250 overhead_us 3.6 points 0 error_percent 0
link kind numa transport tcp flows 2 ways 1 from 0 to inf alpha_us 12 beta_us_per_mib 500 overhead_us 3.6 points 0 error_percent 0
link kind numa transport tcp flows 2 ways 2 from 0 to inf alpha_us 12 beta_us_per_mib 500 overhead_us 3.6 points 0 error_percent 0
link kind numa transport tcp flows 4 ways 1 from 0 to inf alpha_us 12 beta_us_per_mib 1000 overhead_us 3.6 points 0 error_percent 0
link kind numa transport tcp flows 4 ways 2 from 0 to inf alpha_us 12 beta_us_per_mib 1000 overhead_us 3.6 points 0 error_percent 0
link kind numa transport tcp flows 8 ways 1 from 0 to inf alpha_us 12 beta_us_per_mib 2000 overhead_us 3.6 points 0 error_percent 0
link kind numa transport tcp flows 8 ways 2 from 0 to inf alpha_us 12 beta_us_per_mib 2000 overhead_us 3.6 points 0 error_percent 0
link kind node transport shm flows 1 ways 1 from 0 to inf alpha_us 0.6 beta_us_per_mib 130 overhead_us 0.18 points 0 error_percent 0
link kind node transport shm flows 1 ways 2 from 0 to inf alpha_us 0.6 beta_us_per_mib 130 overhead_us 0.18 points 0 error_percent 0
link kind node transport shm flows 2 ways 1 from 0 to inf alpha_us 0.6 beta_us_per_mib 260 overhead_us 0.18 points 0 error_percent 0
link kind node transport shm flows 2 ways 2 from 0 to inf alpha_us 0.6 beta_us_per_mib 260 overhead_us 0.18 points 0 error_percent 0
link kind node transport shm flows 4 ways 1 from 0 to inf alpha_us 0.6 beta_us_per_mib 520 overhead_us 0.18 points 0 error_percent 0
link kind node transport shm flows 4 ways 2 from 0 to inf alpha_us 0.6 beta_us_per_mib 520 overhead_us 0.18 points 0 error_percent 0
link kind node transport shm flows 8 ways 1 from 0 to inf alpha_us 0.6 beta_us_per_mib 1040 overhead_us 0.18 points 0 error_percent 0
link kind node transport shm flows 8 ways 2 from 0 to inf alpha_us 0.6 beta_us_per_mib 1040 overhead_us 0.18 points 0 error_percent 0
link kind node transport tcp flows 1 ways 1 from 0 to inf alpha_us 12 beta_us_per_mib 250 overhead_us 3.6 points 0 error_percent 0
link kind node transport tcp flows 1 ways 2 from 0 to inf alpha_us 12 beta_us_per_mib 250 overhead_us 3.6 points 0 error_percent 0
link kind node transport tcp flows 2 ways 1 from 0 to inf alpha_us 12 beta_us_per_mib 500 overhead_us 3.6 points 0 error_percent 0
link kind node transport tcp flows 2 ways 2 from 0 to inf alpha_us 12 beta_us_per_mib 500 overhead_us 3.6 points 0 error_percent 0
link kind node transport tcp flows 4 ways 1 from 0 to inf alpha_us 12 beta_us_per_mib 1000 overhead_us 3.6 points 0 error_percent 0
link kind node transport tcp flows 4 ways 2 from 0 to inf alpha_us 12 beta_us_per_mib 1000 overhead_us 3.6 points 0 error_percent 0
link kind node transport tcp flows 8 ways 1 from 0 to inf alpha_us 12 beta_us_per_mib 2000 overhead_us 3.6 points 0 error_percent 0
link kind node transport tcp flows 8 ways 2 from 0 to inf alpha_us 12 beta_us_per_mib 2000 overhead_us 3.6 points 0 error_percent 0
link kind net transport tcp flows 1 ways 1 from 0 to inf alpha_us 25 beta_us_per_mib 1000 overhead_us 7.5 points 0 error_percent 0
link kind net transport tcp flows 1 ways 2 from 0 to inf alpha_us 25 beta_us_per_mib 1000 overhead_us 7.5 points 0 error_percent 0
link kind net transport tcp flows 2 ways 1 from 0 to inf alpha_us 25 beta_us_per_mib 1000 overhead_us 7.5 points 0 error_percent 0
link kind net transport tcp flows 2 ways 2 from 0 to inf alpha_us 25 beta_us_per_mib 1000 overhead_us 7.5 points 0 error_percent 0
link kind net transport tcp flows 4 ways 1 from 0 to inf alpha_us 25 beta_us_per_mib 1000 overhead_us 7.5 points 0 error_percent 0
link kind net transport tcp flows 4 ways 2 from 0 to inf alpha_us 25 beta_us_per_mib 1000 overhead_us 7.5 points 0 error_percent 0
link kind net transport tcp flows 8 ways 1 from 0 to inf alpha_us 25 beta_us_per_mib 1000 overhead_us 7.5 points 0 error_percent 0
link kind net transport tcp flows 8 ways 2 from 0 to inf alpha_us 25 beta_us_per_mib 1000 overhead_us 7.5 points 0 error_percent 0

reduce type half op sum sources 2 level L2 bytes 512K gamma_us_per_mib 60 error_percent 0
reduce type half op sum sources 2 level memory bytes 256M gamma_us_per_mib 60 error_percent 0
reduce type float op sum sources 2 level L2 bytes 512K gamma_us_per_mib 60 error_percent 0
reduce type float op sum sources 2 level memory bytes 256M gamma_us_per_mib 60 error_percent 0
